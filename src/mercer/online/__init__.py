"""Data as they come: posteriors that are updated datum by datum, in a time that does not grow with what was
seen.

    OnlineProjectedProcess   any kernel and any likelihood of one latent function, on a bounded active set
    OnlineMarkov             series in time with Gaussian noise, exact

>>> online = mercer.online.OnlineMarkov(GP(kernels.Matern(nu=1.5)), noise_variance=0.1)
>>> online.update(0.0, 1.2).update(0.5, 1.0).forecast(1.0)
"""

from mercer.online.markov import OnlineMarkov
from mercer.online.projected import OnlineProjectedProcess

__all__ = ["OnlineMarkov", "OnlineProjectedProcess"]

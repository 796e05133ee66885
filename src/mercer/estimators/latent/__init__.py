"""Tables by few numbers for each row: latent variable models with scikit-learn's interface."""

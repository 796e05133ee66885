"""Derive the monthly Mauna Loa CO2 series that mercer ships from the weekly record in statsmodels.

python tools/make_co2.py [path of the CSV to write]

A month's value is the mean of the weekly values dated in it; months without any are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from statsmodels.datasets import co2

TARGET = Path(__file__).parents[1] / "src" / "mercer" / "datasets" / "mauna_loa_co2_monthly.csv"

HEADER = """\
# Atmospheric CO2 at Mauna Loa Observatory, Hawaii, 1958-2001: monthly means in ppmv (micromole per mole of dry air).
# Derived by tools/make_co2.py: mean of the weekly values dated in each month; the 5 months without any are left out.
# Weekly record: statsmodels.datasets.co2, marked there as public domain. Its source: Keeling and Whorf (2004),
# Atmospheric CO2 concentrations derived from flask air samples at sites in the SIO network, in Trends: A Compendium of
# Data on Global Change, Carbon Dioxide Information Analysis Center, Oak Ridge National Laboratory.
# decimal_year is the middle of the month, year + (month - 1/2) / 12; weeks is how many weekly values were averaged.
year,month,decimal_year,co2,weeks
"""


def monthly_csv() -> str:
    weekly = co2.load_pandas().data["co2"].dropna()
    months = weekly.groupby([weekly.index.year, weekly.index.month]).agg(["mean", "count"])
    rows = [
        f"{year},{month},{year + (month - 0.5) / 12:.6f},{mean:.4f},{weeks}"
        for (year, month), mean, weeks in months.itertuples()
    ]
    return HEADER + "\n".join(rows) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    path.write_text(monthly_csv(), encoding="utf-8", newline="\n")
    print(f"wrote {path}")

"""What each kind of estimator tells in its report: sections for `mercer.report` to show."""

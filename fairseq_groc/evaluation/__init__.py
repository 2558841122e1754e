"""A trained model on a text: loading, scoring, reports and result files, and the settings of adapters."""

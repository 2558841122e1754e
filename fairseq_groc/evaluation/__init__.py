"""What is computed of a trained model on a text: reports, and the settings of adapters."""

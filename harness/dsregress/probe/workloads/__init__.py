"""The measured work: models, data, losses and jobs, independent of the framework."""

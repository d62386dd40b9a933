"""The work that is measured: models, data, losses and jobs, whatever the framework."""

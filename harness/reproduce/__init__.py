"""From a finding to a script that shows it with the released packages alone, and to what it needs."""

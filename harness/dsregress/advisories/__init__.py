"""Advisories: what is known of the releases, one record per problem, and the answers that are made of them alone.

A record says which releases have a problem and under which conditions. `matching` puts a job's facts to all of them.
"""

"""Workloads: where events and filters come from, be it a file or a seeded generator.

    shape        what every workload is: publishers, subscribers, and when they come and go
    registry     a workload by name and parameters: start here
    files        tables of events and filters: JSON Lines, CSV, Parquet
    stocks       quotes, and the templates of balance
    market       the publishers of stock quotes; balance, placement and green have their subscribers
    zipf         mesh's synthetic data sets
    social       mesh's DT-FB, on a graph of friends
    churn        subscribers that come and go
    events       any file of events, with filters drawn from its own values
    measure      measures a workload: matches and brokers per publication
    parameters   how parameters are checked
    draw         shares dealt exactly

The same seed always gives the same workload, whatever the hash seed. For every number it is stated whether a paper
prints it or it was inferred.
"""

"""Recording: which publications a broker routed and which local subscriptions got them; input of traces and profiles.

module      the module that watches publications       start reading here
tape        a buffer of the publications that were routed lately
audience    which local subscriptions get what goes to a link
"""

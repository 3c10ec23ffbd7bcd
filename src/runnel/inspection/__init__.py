"""Inspection: brokers answer questions about themselves, and whoever asks needs nothing but a connection.

messages   Ask, Answer, Whereabouts
questions  what can be asked, and with which argument
module     the broker's side
why        which predicate of a filter an event fails
ask        the asker's side: one blocking connection
"""

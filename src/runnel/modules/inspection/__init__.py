"""Inspection: brokers answer questions about themselves over an ordinary connection.

messages   Ask, Answer, Referral
questions  what can be asked, and with which argument
module     the broker's side
why        which predicate of a filter an event fails

The asker's side is operate/ask.py: one blocking connection.
"""

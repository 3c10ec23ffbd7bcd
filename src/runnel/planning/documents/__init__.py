"""The plan as a document, and what it is made from.

plan.py          the plan as versioned JSON
constraints.py   what an operator requires of a plan
evidence.py      how much was observed, and so how reliable a plan is
goals.py         what a plan gains, and what it costs to carry out
completion.py    from the planner's result to a document that can be applied
"""

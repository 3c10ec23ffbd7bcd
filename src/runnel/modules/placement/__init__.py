"""Publisher placement: where a publisher should be connected, and how it gets there without loss.

pop.py           POP's tables (`ProfileTable`) and its closest condition (`next_step`)
grape.py         GRAPE: Algorithms 1–3 of the paper, as methods of `SessionTree`, and its choice (`choose`)
config.py        the paper's parameters, for a broker and for single publishers
messages.py      marks on publications, and what brokers tell each other
placing.py       what both modules have in common: carrying out a decision
pop_module.py    the module "pop"
grape_module.py  the module "grape"; delays.py and reports.py are what its reports are made of
answers.py       answers to operators' questions and commands
migration.py     the module "migration": a publisher moves to another broker
module.py        what is registered: the kinds "placement" (pop, grape and answers together) and "migration"
"""

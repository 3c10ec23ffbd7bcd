"""The `runnel` program.

main              the program: the list of commands, and what becomes of errors
commands/         one file per command or group: options, help, and the calls that do the work (docs/extending.md)
show/             what commands print: tables, texts, pages, progress
demo/             what `runnel demo` does to its network

What several commands share:

broker_address    the option --broker, and which broker is meant
events, filters   events and filters as people type them
plan_options      the options of a plan: algorithm, head-room, pins …
plan_files        plans as files
spark_job         the options of jobs on Spark, and a session to run one in
stop_signals      commands that run until Ctrl-C or SIGTERM
detach            `runnel up` in the background
extras            packages that are optional
"""

"""The commands of `runnel`: one file each, with a function of the file's name.

A group of commands is a command, too. Most groups keep their subcommands in their own file: access.py, certs.py,
plan.py, trace.py. Of `pipeline` five are in files of their own, pipeline_NAME.py, each with a function called NAME;
pipeline.py adds these to the group, and has `profiles` itself.
"""

"""The commands of `runnel`: one file each, with a function of the file's name."""

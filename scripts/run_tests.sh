#!/bin/bash
set -eu
for t in "$@"; do case $t in *.bats) bats "$t";; *) "$t";; esac; done

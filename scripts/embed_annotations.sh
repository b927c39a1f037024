#!/bin/bash
# embed_annotations.sh FILE...: the annotation files as texts in C, for core/rules/rule_file.h.
set -eu

echo '#include "core/rules/rule_file.h"'
echo 'const struct rp_rules_text rp_rules_shipped[] = {'
for file in "$@"; do
    echo "{\"$(basename "$file")\","
    # A "?" could be part of a trigraph.
    sed -e 's/[\\"?]/\\&/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
    echo '},'
done
echo '{0}};'

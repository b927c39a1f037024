#!/bin/sh
# Reads the preprocessed shim/symbols.def, writes the linker's version script: what is listed is visible, nothing else.
set -eu

names=$(grep -o 'RP_SYMBOL([^)]*)' | sed 's/^[^,]*, *\([A-Za-z0-9_]*\).*/\1/' | LC_ALL=C sort -u)
[ -n "$names" ] || { echo "exports: no symbol in shim/symbols.def" >&2; exit 1; }
echo '{'
echo 'global:'
for name in $names InitializeInjectionNvtx2; do
    echo "    $name;"
done
echo 'local:'
echo '    *;'
echo '};'

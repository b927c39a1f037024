#!/bin/bash
set -eu
cd "$(dirname "$0")/.."
mkdir -p build-deps
touch build-deps/setup.stamp

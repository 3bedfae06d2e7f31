#!/bin/sh
# with.sh NODE_MODULES COMMAND... -- runs the command with an environment in which programs for target webgpu find Node's WebGPU and a driver.
modules=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
. "$here/find.sh"
NODE_PATH=$modules exec "$@"

#!/bin/sh
# Builds the native tests with sanitizers and runs them: run.sh [address,undefined|thread] [--long]
# thread --long: a minute, instead of two seconds, of 24 threads in the functions that PyTorch calls.
# Uses cmake and ninja of .venv when they are there. Every position of a fault is tried by pytest, without sanitizers.
set -eu
sanitize=${1:-address,undefined}
case "${2:-}" in
  "") seconds=2 ;;
  --long) seconds=60 ;;
  *) echo "run.sh: $2 means nothing; expected --long" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/../.." && pwd)
PATH="$root/.venv/bin:$PATH"
build="$root/build/native-$(echo "$sanitize" | tr , -)"

mkdir -p "$root/build"
cmake -G Ninja -S "$root" -B "$build" -DGMLAKE_PYTHON=OFF -DGMLAKE_TOOLS=ON -DGMLAKE_SANITIZE="$sanitize" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
programs="bins first_fit stress faults callbacks_stress device_stress collectives_stress"
# shellcheck disable=SC2086
ninja -C "$build" $programs >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
echo "native tests with -fsanitize=$sanitize"
"$build/tests/native/bins"
"$build/tests/native/first_fit"
"$build/tests/native/stress" 1
GMLAKE_DEVICE="hazards=1;kernel_us=5" "$build/tests/native/device_stress" 2
GMLAKE_DEVICE="compute=1" "$build/tests/native/collectives_stress" 2
if [ "$sanitize" = thread ]; then
  LD_LIBRARY_PATH="$build/tests/native" GMLAKE_DEVICE="memory=4294967296;kernel_us=5" \
    "$build/tests/native/callbacks_stress" "$seconds" 24
else
  "$build/tests/native/faults" 40
fi

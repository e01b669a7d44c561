// What the device tells the user: one line each on stderr, and, within a run, a file in the session's folder from which
// the launcher makes its closing report. Not a log: a line appears only when something is missing or wrong.
#pragma once

#include <cstdarg>
#include <string>

namespace gmlake::device {

[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);

}  // namespace gmlake::device

extern "C" {
// Called by the stand-ins (and by our own entry points) for a function that is not emulated: says so once per symbol
// and returns the code, the library's own "not supported".
__attribute__((visibility("default"))) int gmlake_device_unimplemented(const char* symbol, int code);
// Called by the stand-ins for numeric work, which does nothing by design.
__attribute__((visibility("default"))) int gmlake_device_noop(const char* symbol);
}

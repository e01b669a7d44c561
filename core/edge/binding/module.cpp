// gmlake._core: the core for Python. Thin on purpose; anything worth testing without Python lives below.
#include "edge/binding/bind.h"

NB_MODULE(_core, m) {
  gmlake::bind_base(m);
  gmlake::bind_driver(m);
  gmlake::bind_allocator(m);
  gmlake::bind_history(m);
  gmlake::bind_replay(m);
  gmlake::bind_torch(m);
}

// Allocators with a defect, to be plugged into PyTorch: what is wrong with them must be noticed.
#include <stddef.h>
#include <stdlib.h>

int cudaMalloc(void** at, size_t size);

static char* base;
static size_t used;
static long count;

static char* take(size_t size, size_t less) {
  const size_t all = (size_t)1 << 30;
  if (base == NULL && cudaMalloc((void**)&base, all) != 0) abort();
  if (used + size > all) abort();
  char* at = base + used;
  used += size - less;
  return at;
}

static size_t rounded(ptrdiff_t size) {
  return size > 0 ? ((size_t)size + 511) & ~(size_t)511 : 512;
}

// A sound one: it never uses memory twice.
void* sound(ptrdiff_t size, int device, void* stream) {
  return take(rounded(size), 0);
}

// One block of many overlaps its successor by 512 bytes.
void* overlapping(ptrdiff_t size, int device, void* stream) {
  const size_t bytes = rounded(size);
  return take(bytes, ++count % 200 == 0 && bytes > 1024 ? 512 : 0);
}

// Freed memory is handed out again at once, to whichever stream asks, without waiting for the one that used it.
static void* freed;
static size_t freed_size;
void* hasty(ptrdiff_t size, int device, void* stream) {
  const size_t bytes = rounded(size);
  if (freed != NULL && freed_size == bytes) {
    void* again = freed;
    freed = NULL;
    return again;
  }
  return take(bytes, 0);
}

void forget(void* at, ptrdiff_t size, int device, void* stream) {
  freed = at;
  freed_size = rounded(size);
}

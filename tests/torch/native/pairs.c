/* One warm pair of allocation and free between two signals, for single_step.c: through our callbacks as PyTorch calls
   them, and through PyTorch's allocator object, whose virtual functions are called by their place (PyTorch 2.14). */
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WARM = 2000, RAW_ALLOC = 13, RAW_DELETE = 15 };
typedef void* (*Allocate)(size_t, int, void*);
typedef void (*Free)(void*, size_t, int, void*);
typedef void* (*RawAlloc)(void* allocator, size_t);
typedef void (*RawDelete)(void* allocator, void*);

static void mark(int number) {
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

void nothing(void) {
  mark(SIGUSR1);
  mark(SIGUSR2);
}

void callbacks(Allocate allocate, Free release, size_t size) {
  for (int i = 0; i < WARM; i++) release(allocate(size, 0, NULL), size, 0, NULL);
  mark(SIGUSR1);
  release(allocate(size, 0, NULL), size, 0, NULL);
  mark(SIGUSR2);
}

void object(void* allocator, size_t size) {
  void** const functions = *(void***)allocator;
  const RawAlloc allocate = (RawAlloc)functions[RAW_ALLOC];
  const RawDelete release = (RawDelete)functions[RAW_DELETE];
  for (int i = 0; i < WARM; i++) release(allocator, allocate(allocator, size));
  mark(SIGUSR1);
  release(allocator, allocate(allocator, size));
  mark(SIGUSR2);
}

/* The C ABI of libgmlake.so: what a host that is not Python calls, on the allocators of this process (process.h).
   No exception leaves it. A call that fails returns NULL or a code other than 0, changes nothing, and leaves one
   sentence for gmlake_last_error on the same thread. Streams are the driver's handles; NULL is the default stream. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a failed call returns. */
enum gmlake_result {
  GMLAKE_SUCCESS = 0,
  GMLAKE_INVALID_ARGUMENT = 1, /* the caller's mistake */
  GMLAKE_OUT_OF_MEMORY = 2,
  GMLAKE_DRIVER_ERROR = 3, /* no usable driver, or it was lost */
  GMLAKE_INTERNAL_ERROR = 4
};

/* Checks the number of devices and the options in the environment, so that mistakes show before the first request. */
int gmlake_init(int device_count);

/* NULL for a size of 0, and on failure: a host must tell the two apart by the size. */
void* gmlake_allocate(size_t size, int device, void* stream);
/* size and stream are those of the allocation; hosts pass them, nothing depends on them. */
int gmlake_free(void* address, size_t size, int device, void* stream);
/* The block is also used on this stream. The device is the one that the address belongs to. */
int gmlake_record_stream(void* address, void* stream);
/* Gives back what can be given back, on every device in use. */
int gmlake_trim(void);
/* Never reserve more than this share (0 to 1) of the device's memory. */
int gmlake_set_memory_fraction(double fraction, int device);

/* Private pools, named by two numbers. Between begin and end, allocations on streams that pass the filter (NULL: all)
   come from the pool. The filter is called under the allocator's lock until end; it must not call back. */
typedef int (*gmlake_stream_filter)(void* stream, void* context);
int gmlake_begin_pool(int device, uint64_t capture, uint64_t user, gmlake_stream_filter filter, void* context);
int gmlake_end_pool(int device, uint64_t capture, uint64_t user);
int gmlake_release_pool(int device, uint64_t capture, uint64_t user);

/* Why the last failed call of this thread failed; empty if none did. Valid until the next failure on this thread. */
const char* gmlake_last_error(void);

#ifdef __cplusplus
}
#endif

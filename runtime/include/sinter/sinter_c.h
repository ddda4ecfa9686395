// SPDX-License-Identifier: Apache-2.0
// Sinter for C and for languages that call C: load a plan, run it.
//
// Errors. Functions that can fail return a sinter_status; others document their result.
// sinter_last_error() returns the message of the calling thread's last failed call, until its next
// one. On an error, output parameters are unchanged. No exception leaves a function.
//
// Versions. Released functions, constants and structure members never change; releases only add new
// ones. Extensible structures begin with `struct_size`, which the caller sets to its own sizeof:
// the library reads and writes no more than that. The library refuses nonzero values in members
// that it does not know. Zero is the default of every option: `sinter_session_options options =
// {sizeof options};` selects all defaults.
//
// Handles. A sinter_plan and a sinter_engine are thread-safe. One thread at a time uses a
// sinter_session; a concurrent call returns SINTER_ERROR_USAGE. Sessions and engines keep their
// plan's contents alive, so it may be freed first. Freeing NULL, or a freed handle, has no effect.
// Any other use of a freed or invalid handle returns SINTER_ERROR_USAGE (a count is 0, an address
// NULL): handles are unique numbers, not addresses. An object freed during another thread's call is
// destroyed at the end of that call.
//
// Strings are UTF-8 and zero-terminated. Returned pointers refer to memory of the handle passed to
// the function; they are valid as long as the handle, or as documented.
#ifndef SINTER_C_H
#define SINTER_C_H

#include <sinter/export.h>
#include <sinter/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Grows when functions or members are added. If the library's version is less than the program's,
/// functions or members are missing.
#define SINTER_C_ABI_VERSION 7
SINTER_API uint32_t sinter_c_abi_version(void);
/// "0.2.0".
SINTER_API const char* sinter_version(void);

typedef int32_t sinter_status;
enum {
  SINTER_OK = 0,
  SINTER_ERROR_USAGE = 1,          // a wrong option, input name, type, rank or dimension
  SINTER_ERROR_UNSUPPORTED = 2,    // a valid model that needs a feature that Sinter lacks
  SINTER_ERROR_INVALID_MODEL = 3,  // not an ONNX model, or an inconsistent one
  SINTER_ERROR_INVALID_PLAN = 4,   // not a plan, or damaged, newer, or for another target
  SINTER_ERROR_OUT_OF_MEMORY = 5,  // host or device memory
  SINTER_ERROR_DEVICE = 6,         // a missing or failing GPU, driver or library
  SINTER_ERROR_INTERNAL = 7,       // a defect of Sinter itself
  SINTER_ERROR_CANCELLED = 8,      // the caller asked to stop
  SINTER_ERROR_QUEUE_FULL = 9,  // the engine's queue of waiting requests is full: try again later
  SINTER_ERROR_ENGINE_STOPPED = 10  // an engine was drained, or cannot continue after a failure
};
/// "usage", "out_of_memory"; "unknown" for an invalid number. Never NULL, never freed.
SINTER_API const char* sinter_status_name(sinter_status status);
/// Message of this thread's last failed call; empty before one. Never NULL.
SINTER_API const char* sinter_last_error(void);

/// Types of elements.
typedef int32_t sinter_dtype;
enum {
  SINTER_BOOL = 0,
  SINTER_INT8 = 1,
  SINTER_INT16 = 2,
  SINTER_INT32 = 3,
  SINTER_INT64 = 4,
  SINTER_UINT8 = 5,
  SINTER_UINT16 = 6,
  SINTER_UINT32 = 7,
  SINTER_UINT64 = 8,
  SINTER_FLOAT16 = 9,
  SINTER_BFLOAT16 = 10,
  SINTER_FLOAT32 = 11,
  SINTER_FLOAT64 = 12,
  SINTER_FLOAT8_E4M3FN = 13,
  SINTER_FLOAT8_E5M2 = 14,
  SINTER_FLOAT8_E4M3FNUZ = 15,
  SINTER_FLOAT8_E5M2FNUZ = 16
};
/// Bytes of an element; 0 for an invalid number.
SINTER_API size_t sinter_dtype_size(sinter_dtype dtype);

typedef int32_t sinter_memory;
enum { SINTER_HOST = 0, SINTER_DEVICE = 1 };

typedef struct sinter_plan sinter_plan;
typedef struct sinter_session sinter_session;
typedef struct sinter_device_buffer sinter_device_buffer;
typedef struct sinter_engine sinter_engine;

// ---- plans

/// Maps and checks a file, which must not change while the plan or a session of it lives (else use
/// sinter_plan_load_copy).
SINTER_API sinter_status sinter_plan_load(const char* path, sinter_plan** plan);
/// Checks a copy of `size` bytes.
SINTER_API sinter_status sinter_plan_from_memory(const void* bytes, size_t size,
                                                 sinter_plan** plan);
/// The same without a copy. `bytes` must be aligned to 64 and stay unchanged until `release` is
/// called with `user`, once, by the thread that frees the plan or its last session. On failure,
/// `release` is called at once. A `release` of NULL: the bytes must stay until both are freed.
SINTER_API sinter_status sinter_plan_borrow(const void* bytes, size_t size,
                                            void (*release)(void* user), void* user,
                                            sinter_plan** plan);
SINTER_API void sinter_plan_free(sinter_plan* plan);
/// As sinter_plan_load, but reads the file into memory instead of mapping it, so later changes to
/// the file have no effect. Truncating a mapped file kills the process.
SINTER_API sinter_status sinter_plan_load_copy(const char* path, sinter_plan** plan);

/// Options of sinter_plan_load_with.
typedef struct sinter_load_options {
  size_t struct_size;
  int32_t copy;                // 1: as sinter_plan_load_copy
  int32_t refuse_custom_code;  // 1: SINTER_ERROR_INVALID_PLAN for a plan that contains code, as
                               // every plan for GPUs does, unless require_signature verifies its
                               // origin
  // Libraries with the plan's host operators (sinter/sinter_operator.h): paths of shared libraries,
  // and tables of the program, which must stay valid. Paths are searched before tables; the first
  // match wins. If any are given, loading requires all of the plan's operators; otherwise sessions
  // do.
  const char* const* operator_libraries;
  size_t operator_library_count;
  const struct sinter_operator_table* const* operator_tables;
  size_t operator_table_count;
  // If not NULL: a plan whose whole file is not signed by this Ed25519 public key (`sinter sign`)
  // is SINTER_ERROR_INVALID_PLAN. PEM, base64 of 32 bytes, or the path of a file with either.
  const char* require_signature;
} sinter_load_options;
/// `options` = NULL: as sinter_plan_load.
SINTER_API sinter_status sinter_plan_load_with(const char* path, const sinter_load_options* options,
                                               sinter_plan** plan);

/// Never grows. A dimension: fixed, or symbolic with a range (both ends inclusive).
typedef struct sinter_dim {
  const char* text;  // "384", "batch", "batch*seq"
  int64_t min, max;
} sinter_dim;

/// An input or an output.
typedef struct sinter_binding {
  size_t struct_size;
  const char* name;
  sinter_dtype dtype;
  int32_t rank;
  const sinter_dim* shape;
  int64_t state;  // index of the state it belongs to, or -1
} sinter_binding;

SINTER_API size_t sinter_plan_input_count(const sinter_plan* plan);
SINTER_API size_t sinter_plan_output_count(const sinter_plan* plan);
SINTER_API sinter_status sinter_plan_input(const sinter_plan* plan, size_t index,
                                           sinter_binding* binding);
SINTER_API sinter_status sinter_plan_output(const sinter_plan* plan, size_t index,
                                            sinter_binding* binding);
SINTER_API sinter_status sinter_plan_input_index(const sinter_plan* plan, const char* name,
                                                 size_t* index);
SINTER_API sinter_status sinter_plan_output_index(const sinter_plan* plan, const char* name,
                                                  size_t* index);

/// A run writes output `output`, and the next run reads it as input `input`.
SINTER_API size_t sinter_plan_state_count(const sinter_plan* plan);
SINTER_API sinter_status sinter_plan_state(const sinter_plan* plan, size_t index, size_t* input,
                                           size_t* output);

/// Entry point: steps for shapes within limits. A run takes the first that fits.
typedef struct sinter_entry {
  size_t struct_size;
  const char* name;
  size_t limit_count;
  const sinter_dim* limits;  // limits of symbolic dimensions, by name
} sinter_entry;
/// 0: a single list of steps serves all shapes.
SINTER_API size_t sinter_plan_entry_count(const sinter_plan* plan);
SINTER_API sinter_status sinter_plan_entry(const sinter_plan* plan, size_t index,
                                           sinter_entry* entry);

/// Never grow.
typedef struct sinter_option {
  const char* key;
  const char* value;
} sinter_option;
typedef struct sinter_measured_error {
  const char* output;
  double relative_error;
} sinter_measured_error;

typedef struct sinter_plan_facts {
  size_t struct_size;
  const char* target;                // "cpu" or "cuda"
  const char* const* architectures;  // "sm_90", ...
  size_t architecture_count;
  uint64_t step_count;
  uint64_t weight_bytes;
  const char* compiler_version;
  uint32_t format_version;
  uint32_t cuda_version;  // of NVRTC, 13000 for 13.0; 0: no kernels
  const char* model_name;
  uint64_t model_hash;
  const sinter_option* options;  // compiler options and metadata
  size_t option_count;
  const sinter_measured_error* measured_errors;
  size_t measured_error_count;
  const char* graph_text;
  const char* const* custom_code;  // operators with custom code: "com.example::RowSum"
  size_t custom_code_count;
} sinter_plan_facts;
SINTER_API sinter_status sinter_plan_get_facts(const sinter_plan* plan, sinter_plan_facts* facts);

// ---- sessions

/// The program's allocator for a session's memory: see sinter/allocator.h. Both functions receive
/// `user`.
typedef struct sinter_allocator {
  size_t struct_size;
  void* user;
  /// `bytes` aligned to `alignment`, in host memory or on GPU `device`; NULL: out of memory.
  void* (*allocate)(void* user, sinter_memory memory, int32_t device, size_t bytes,
                    size_t alignment);
  void (*deallocate)(void* user, void* data, sinter_memory memory, int32_t device, size_t bytes,
                     size_t alignment);
} sinter_allocator;

typedef struct sinter_session_options {
  size_t struct_size;
  int32_t device;                     // CUDA device
  int32_t threads;                    // CPU target; 0: all cores
  int32_t without_cuda_graphs;        // 1: launch every step on a stream
  sinter_memory output_memory;        // memory of the session's own outputs, on a GPU
  uint64_t graph_cache;               // maximum number of shapes with captured graphs; 0: 16
  const char* tuning_cache;           // folder for chosen algorithms; NULL: next to the plan
  int32_t thorough_tuning;            // 1: time more algorithms
  const sinter_allocator* allocator;  // NULL: the system's. The structure is copied; `user` must
                                      // stay valid until the session and all lent memory are gone
  uint64_t max_iterations;  // maximum total iterations of all loops in a run; 0: 10,000,000
  uint64_t weight_budget;   // limit of GPU memory for weights, in bytes; 0: no limit
} sinter_session_options;

/// `options` = NULL: the defaults.
SINTER_API sinter_status sinter_session_create(const sinter_plan* plan,
                                               const sinter_session_options* options,
                                               sinter_session** session);
/// Waits for a run.
SINTER_API void sinter_session_free(sinter_session* session);

/// Dense row-major elements that the caller owns. `data` is only read.
typedef struct sinter_tensor {
  size_t struct_size;
  sinter_dtype dtype;
  int32_t rank;
  const int64_t* shape;
  const void* data;
  size_t bytes;  // size of `data`, as type and shape say
  sinter_memory memory;
  int32_t device;  // GPU of device memory; -1: the session's
} sinter_tensor;
/// The same for writing.
typedef struct sinter_mutable_tensor {
  size_t struct_size;
  sinter_dtype dtype;
  int32_t rank;
  const int64_t* shape;
  void* data;
  size_t bytes;
  sinter_memory memory;
  int32_t device;
} sinter_mutable_tensor;

// With a shape seen before none of these functions allocates.

/// Host memory is copied before this returns; device memory is used in place, as by
/// sinter_session_use_input. An input stays set for all later runs.
SINTER_API sinter_status sinter_session_set_input(sinter_session* session, size_t index,
                                                  const sinter_tensor* tensor);
/// Memory that runs read in place: CPU plans take host memory aligned to its element size, CUDA
/// plans device memory aligned to 16 bytes. It must stay valid and unchanged during each run. Not
/// for states.
SINTER_API sinter_status sinter_session_use_input(sinter_session* session, size_t index,
                                                  const sinter_tensor* tensor);
/// Memory to which runs write an output; it must stay valid during each run. NULL restores the
/// session's own. sinter_session_await fills host memory of a CUDA plan. Not for states.
SINTER_API sinter_status sinter_session_set_output(sinter_session* session, size_t index,
                                                   const sinter_mutable_tensor* tensor);

/// Runs and waits.
SINTER_API sinter_status sinter_session_run(sinter_session* session);
/// Starts a run on `stream`, a CUstream or cudaStream_t; NULL: a stream of the session's own, which
/// synchronizes with no other. The run starts after earlier work on `stream`, and later work there
/// starts after the run. So earlier work may write device inputs, and later work may overwrite
/// them. On the CPU this call executes the whole run. sinter/session.h says more.
SINTER_API sinter_status sinter_session_run_async(sinter_session* session, void* stream);
/// Waits for the last run and reports its error.
SINTER_API sinter_status sinter_session_await(sinter_session* session);

/// The output of the last run: `tensor` and its memory are valid until the next run,
/// sinter_session_warm_up or the session's end. Host memory: waits for the run. Device memory: the
/// run's stream orders the values. States are read like other outputs.
SINTER_API sinter_status sinter_session_output(sinter_session* session, size_t index,
                                               sinter_tensor* tensor);

/// Sets every state to zero and forgets its shape.
SINTER_API sinter_status sinter_session_reset_state(sinter_session* session);

/// Later runs, of all sessions that share the weights, use the weights of `plan`, which must equal
/// the session's plan in all else. Allocates nothing; sinter/session.h says more.
SINTER_API sinter_status sinter_session_set_weights(sinter_session* session,
                                                    const sinter_plan* plan);

/// Never grows. The shape of an input.
typedef struct sinter_input_shape {
  size_t input;
  int32_t rank;
  const int64_t* shape;
} sinter_input_shape;
/// Prepares a run with inputs of these shapes, so that it neither allocates nor captures.
SINTER_API sinter_status sinter_session_warm_up(sinter_session* session,
                                                const sinter_input_shape* shapes, size_t count);

/// Bytes for the shape bound last. `io`: inputs, outputs and states.
typedef struct sinter_memory_account {
  size_t struct_size;
  uint64_t weights, arena, arena_without_reuse, workspace, io;
  uint64_t streamed_weights;  // in pinned host memory, of a session with a weight budget
  uint64_t weight_ring;       // device buffer into which they are copied
} sinter_memory_account;
SINTER_API sinter_status sinter_session_memory(sinter_session* session,
                                               sinter_memory_account* account);
/// The entry point of the shape bound last; empty if the plan has none.
SINTER_API sinter_status sinter_session_entry(sinter_session* session, const char** name);
/// Kernels and library calls of one run.
SINTER_API sinter_status sinter_session_launches(sinter_session* session, uint64_t* launches);

/// Lends output `index` of the last run as a DLManagedTensorVersioned, which the receiver releases.
/// Until then runs, warm_up and reset_state return SINTER_ERROR_USAGE; the memory outlives the
/// session.
SINTER_API sinter_status sinter_session_output_dlpack(sinter_session* session, size_t index,
                                                      void** managed_tensor);

// Binds columns of Arrow tables to inputs and exports outputs as columns, through the structures of
// the Arrow C data and C device interfaces. The program or sinter/arrow_abi.h declares these.
// sinter/arrow.h describes how columns map to tensors.
struct ArrowSchema;
struct ArrowArray;
struct ArrowDeviceArray;

typedef int32_t sinter_nulls;
enum {
  SINTER_NULLS_REFUSED = 0,  // a column with nulls is SINTER_ERROR_USAGE
  SINTER_NULLS_NAN = 1       // in float inputs; other inputs refuse nulls
};

/// Never grows. The columns of one input: one column fills it, several fill [rows, features].
typedef struct sinter_input_columns {
  size_t input;
  const char* const* columns;  // by name, in this order
  size_t column_count;
  const char* mask;  // name of a validity-mask input, 1 for a value and 0 for a null; NULL: `nulls`
                     // applies
} sinter_input_columns;

typedef struct sinter_batch_options {
  size_t struct_size;
  const sinter_input_columns* inputs;  // an unlisted input takes the column of the same name
  size_t input_count;
  sinter_nulls nulls;
  int32_t cast;        // 1: converts numbers to float32, float64, int32 and int64
  int32_t copy;        // 1: reads no column in place
  int64_t first_row;   // start of the range of rows that is bound
  int64_t rows;        // 0: to the end of the batch
  int32_t all_inputs;  // 1: an input without columns is SINTER_ERROR_USAGE, also if it was set
} sinter_batch_options;

/// Binds the columns of a record batch (a struct array) to inputs. If `*in_place` (the pointer may
/// be NULL) becomes 1, runs read some columns in the batch's memory: it must not be released or
/// changed during a run. The program keeps ownership of both structures. `options` = NULL: the
/// defaults.
SINTER_API sinter_status sinter_session_bind_record_batch(sinter_session* session,
                                                          const struct ArrowSchema* schema,
                                                          const struct ArrowArray* batch,
                                                          const sinter_batch_options* options,
                                                          int32_t* in_place);
/// The same for a batch that may be in device memory, where columns are read in place. Waits for
/// the batch's event.
SINTER_API sinter_status sinter_session_bind_device_record_batch(
    sinter_session* session, const struct ArrowSchema* schema, const struct ArrowDeviceArray* batch,
    const sinter_batch_options* options, int32_t* in_place);

/// Copies output `index` of the last run to a new array in host memory, which the receiver
/// releases.
SINTER_API sinter_status sinter_session_output_arrow(sinter_session* session, size_t index,
                                                     struct ArrowSchema* schema,
                                                     struct ArrowArray* array);
/// Exports all outputs except states as the columns of a record batch.
SINTER_API sinter_status sinter_session_outputs_arrow(sinter_session* session,
                                                      struct ArrowSchema* schema,
                                                      struct ArrowArray* batch);
/// The same in the outputs' own memory. Device memory is lent, as by sinter_session_output_dlpack.
SINTER_API sinter_status sinter_session_output_arrow_device(sinter_session* session, size_t index,
                                                            struct ArrowSchema* schema,
                                                            struct ArrowDeviceArray* array);
SINTER_API sinter_status sinter_session_outputs_arrow_device(sinter_session* session,
                                                             struct ArrowSchema* schema,
                                                             struct ArrowDeviceArray* batch);

// ---- GPUs

typedef struct sinter_gpu_info {
  size_t struct_size;
  const char* name;  // valid until this thread's next call of sinter_gpu
  const char* architecture;
  int32_t multiprocessors;
  uint64_t memory_bytes;
  uint64_t l2_bytes;
} sinter_gpu_info;
/// Number of GPUs that can run sessions. If 0, `problem` (which may be NULL) gives the reason and
/// the remedy, valid until this thread's next call of sinter_gpu_count; else it is empty.
SINTER_API sinter_status sinter_gpu_count(size_t* count, const char** problem);
SINTER_API sinter_status sinter_gpu(size_t index, sinter_gpu_info* info);

/// Memory on a GPU, for programs that do not link CUDA. Copies are synchronous.
SINTER_API sinter_status sinter_device_buffer_create(int32_t device, size_t bytes,
                                                     sinter_device_buffer** buffer);
SINTER_API void sinter_device_buffer_free(sinter_device_buffer* buffer);
/// Device address; NULL for a size of 0.
SINTER_API void* sinter_device_buffer_data(const sinter_device_buffer* buffer);
SINTER_API sinter_status sinter_device_buffer_write(sinter_device_buffer* buffer, size_t offset,
                                                    const void* source, size_t bytes);
SINTER_API sinter_status sinter_device_buffer_read(const sinter_device_buffer* buffer,
                                                   size_t offset, void* target, size_t bytes);

// ---- the process

/// The thread pool of CPU plans, one for all sessions of the process: see sinter/threads.h.
typedef struct sinter_thread_pool_options {
  size_t struct_size;
  int32_t threads;            // 0: SINTER_THREADS, or what this process may use
  int32_t spin_microseconds;  // how long an idle thread spins before it sleeps; 0: 50, -1: no
                              // spinning
  const int32_t* cpus;        // processors that the pool's own threads may use
  size_t cpu_count;           // 0: the calling thread's processors
} sinter_thread_pool_options;
SINTER_API sinter_status sinter_set_thread_pool(const sinter_thread_pool_options* options);
/// The pool's number of threads, callers included.
SINTER_API sinter_status sinter_thread_pool_size(int32_t* threads);

typedef int32_t sinter_log_level;
enum { SINTER_LOG_DEBUG = 0, SINTER_LOG_INFO = 1, SINTER_LOG_WARNING = 2, SINTER_LOG_ERROR = 3 };
typedef void (*sinter_logger)(void* user, sinter_log_level level, const char* message);
/// Passes every further message of level `least` or above to `logger`; NULL turns messages off. Any
/// thread that uses the library calls it, several at once. It must not call Sinter. The library
/// prints nothing by itself.
SINTER_API sinter_status sinter_set_logger(sinter_logger logger, void* user,
                                           sinter_log_level least);

#ifdef __cplusplus
}
#endif

#include <sinter/sinter_c_engine.h>

#endif

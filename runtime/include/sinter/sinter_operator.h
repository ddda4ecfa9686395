// SPDX-License-Identifier: Apache-2.0
// Host operators: functions of a user's library that compute operators of a plan. A C interface,
// for all languages that export C functions; includes no other header of Sinter and links nothing.
//
// The model is compiled with a definition of the operator that has [operator.host]. A shared
// library exports `sinter_operators`, which returns a table of functions. Loading the plan names
// the library (LoadOptions::operator_libraries, sinter_plan_load_with, --op-library).
//
// Functions return 0, or another number on failure: the run then fails with that number and the
// text in `message`. Any thread calls them, several at once if several sessions run. C++ exceptions
// must not leave them. Structures only grow at their end.
#ifndef SINTER_OPERATOR_H
#define SINTER_OPERATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// ABI version of the structures below; another version means other structures.
#define SINTER_OPERATOR_ABI_VERSION 1

#if defined(_WIN32)
#define SINTER_OPERATOR_EXPORT __declspec(dllexport)
#else
#define SINTER_OPERATOR_EXPORT __attribute__((visibility("default")))
#endif

/// Dense row-major elements.
typedef struct sinter_operator_tensor {
  int32_t dtype;  // a sinter_dtype of sinter_c.h: 11 is float32
  int32_t rank;
  const int64_t* shape;
  void* data;  // inputs are read-only; NULL when only sizes are requested
} sinter_operator_tensor;

/// An attribute of the definition, with the node's value.
typedef struct sinter_operator_attribute {
  const char* name;
  int32_t is_float;
  int64_t integer;  // the value, unless is_float
  double real;
} sinter_operator_attribute;

/// Arguments of each function. All pointers are valid until the function returns.
typedef struct sinter_operator_call {
  size_t struct_size;  // set by the caller
  void* user;          // the operator's `user`
  size_t input_count;
  const sinter_operator_tensor* inputs;  // in the definition's order
  size_t output_count;
  const sinter_operator_tensor* outputs;
  size_t attribute_count;
  const sinter_operator_attribute* attributes;  // sorted by name
  void* workspace;                              // 64-byte aligned, in the same memory as the data
  size_t workspace_bytes;
  int32_t threads;  // run: the session's maximum number of threads
  void* stream;     // enqueue: a CUstream
  char* message;    // buffer for an error message, ending with a zero
  size_t message_size;
} sinter_operator_call;

typedef struct sinter_operator {
  const char* name;  // "com.example::RowSum"
  void* user;        // passed to each function
  /// Writes the sizes of each output to `shapes`; each has as many sizes as the output's rank in
  /// `call`. Called when the sizes of the inputs are known; if the result differs from the plan's
  /// sizes, the operator does not run. NULL: the plan's sizes are right.
  int32_t (*infer_shapes)(const sinter_operator_call* call, int64_t* const* shapes);
  /// Bytes of workspace that a call needs; called when the sizes are known. NULL: 0.
  int32_t (*workspace_bytes)(const sinter_operator_call* call, size_t* bytes);
  /// Computes the outputs; inputs and outputs are in host memory. NULL: unsupported on CPUs.
  int32_t (*run)(const sinter_operator_call* call);
  /// Enqueues the work on `stream`, for data in the memory of the current GPU, without waiting for
  /// it. The stream is being captured into a CUDA graph, which runs many times, so calls that
  /// capture forbids (allocating, synchronizing) are not allowed. NULL: unsupported on GPUs.
  int32_t (*enqueue)(const sinter_operator_call* call);
} sinter_operator;

typedef struct sinter_operator_table {
  uint32_t abi_version;    // SINTER_OPERATOR_ABI_VERSION
  uint32_t operator_size;  // sizeof(sinter_operator)
  size_t operator_count;
  const sinter_operator* operators;
} sinter_operator_table;

/// The function that a library exports. The table and all that it points to must stay valid.
SINTER_OPERATOR_EXPORT const sinter_operator_table* sinter_operators(void);

#ifdef __cplusplus
}
#endif

#endif

// Where members of sinter_c.h's structures lie, as a C compiler puts them.
#include <sinter/sinter_c.h>
#include <stdio.h>

#include "c_program.h"

#define STRUCT(type) \
  { #type, sizeof(type) }
#define MEMBER(type, member) \
  { #type "." #member, offsetof(type, member) }

static const struct {
  const char* name;
  size_t at;
} rows[] = {
    STRUCT(sinter_dim),
    MEMBER(sinter_dim, text),
    MEMBER(sinter_dim, min),
    MEMBER(sinter_dim, max),
    STRUCT(sinter_binding),
    MEMBER(sinter_binding, struct_size),
    MEMBER(sinter_binding, name),
    MEMBER(sinter_binding, dtype),
    MEMBER(sinter_binding, rank),
    MEMBER(sinter_binding, shape),
    MEMBER(sinter_binding, state),
    STRUCT(sinter_entry),
    MEMBER(sinter_entry, struct_size),
    MEMBER(sinter_entry, name),
    MEMBER(sinter_entry, limit_count),
    MEMBER(sinter_entry, limits),
    STRUCT(sinter_option),
    MEMBER(sinter_option, key),
    MEMBER(sinter_option, value),
    STRUCT(sinter_measured_error),
    MEMBER(sinter_measured_error, output),
    MEMBER(sinter_measured_error, relative_error),
    STRUCT(sinter_plan_facts),
    MEMBER(sinter_plan_facts, struct_size),
    MEMBER(sinter_plan_facts, target),
    MEMBER(sinter_plan_facts, architectures),
    MEMBER(sinter_plan_facts, architecture_count),
    MEMBER(sinter_plan_facts, step_count),
    MEMBER(sinter_plan_facts, weight_bytes),
    MEMBER(sinter_plan_facts, compiler_version),
    MEMBER(sinter_plan_facts, format_version),
    MEMBER(sinter_plan_facts, cuda_version),
    MEMBER(sinter_plan_facts, model_name),
    MEMBER(sinter_plan_facts, model_hash),
    MEMBER(sinter_plan_facts, options),
    MEMBER(sinter_plan_facts, option_count),
    MEMBER(sinter_plan_facts, measured_errors),
    MEMBER(sinter_plan_facts, measured_error_count),
    MEMBER(sinter_plan_facts, graph_text),
    STRUCT(sinter_allocator),
    MEMBER(sinter_allocator, struct_size),
    MEMBER(sinter_allocator, user),
    MEMBER(sinter_allocator, allocate),
    MEMBER(sinter_allocator, deallocate),
    STRUCT(sinter_session_options),
    MEMBER(sinter_session_options, struct_size),
    MEMBER(sinter_session_options, device),
    MEMBER(sinter_session_options, threads),
    MEMBER(sinter_session_options, without_cuda_graphs),
    MEMBER(sinter_session_options, output_memory),
    MEMBER(sinter_session_options, graph_cache),
    MEMBER(sinter_session_options, tuning_cache),
    MEMBER(sinter_session_options, thorough_tuning),
    MEMBER(sinter_session_options, allocator),
    MEMBER(sinter_session_options, max_iterations),
    MEMBER(sinter_session_options, weight_budget),
    STRUCT(sinter_tensor),
    MEMBER(sinter_tensor, struct_size),
    MEMBER(sinter_tensor, dtype),
    MEMBER(sinter_tensor, rank),
    MEMBER(sinter_tensor, shape),
    MEMBER(sinter_tensor, data),
    MEMBER(sinter_tensor, bytes),
    MEMBER(sinter_tensor, memory),
    MEMBER(sinter_tensor, device),
    STRUCT(sinter_mutable_tensor),
    MEMBER(sinter_mutable_tensor, struct_size),
    MEMBER(sinter_mutable_tensor, dtype),
    MEMBER(sinter_mutable_tensor, rank),
    MEMBER(sinter_mutable_tensor, shape),
    MEMBER(sinter_mutable_tensor, data),
    MEMBER(sinter_mutable_tensor, bytes),
    MEMBER(sinter_mutable_tensor, memory),
    MEMBER(sinter_mutable_tensor, device),
    STRUCT(sinter_input_shape),
    MEMBER(sinter_input_shape, input),
    MEMBER(sinter_input_shape, rank),
    MEMBER(sinter_input_shape, shape),
    STRUCT(sinter_memory_account),
    MEMBER(sinter_memory_account, struct_size),
    MEMBER(sinter_memory_account, weights),
    MEMBER(sinter_memory_account, arena),
    MEMBER(sinter_memory_account, arena_without_reuse),
    MEMBER(sinter_memory_account, workspace),
    MEMBER(sinter_memory_account, io),
    MEMBER(sinter_memory_account, streamed_weights),
    MEMBER(sinter_memory_account, weight_ring),
    STRUCT(sinter_thread_pool_options),
    MEMBER(sinter_thread_pool_options, struct_size),
    MEMBER(sinter_thread_pool_options, threads),
    MEMBER(sinter_thread_pool_options, spin_microseconds),
    MEMBER(sinter_thread_pool_options, cpus),
    MEMBER(sinter_thread_pool_options, cpu_count),
    STRUCT(sinter_gpu_info),
    MEMBER(sinter_gpu_info, struct_size),
    MEMBER(sinter_gpu_info, name),
    MEMBER(sinter_gpu_info, architecture),
    MEMBER(sinter_gpu_info, multiprocessors),
    MEMBER(sinter_gpu_info, memory_bytes),
    MEMBER(sinter_gpu_info, l2_bytes),
};
enum { kRows = sizeof rows / sizeof rows[0] };

const char* const* sinter_test_c_layout(size_t* count) {
  static char text[kRows][64];
  static const char* lines[kRows];
  for (size_t i = 0; i < kRows; ++i) {
    snprintf(text[i], sizeof text[i], "%s %zu", rows[i].name, rows[i].at);
    lines[i] = text[i];
  }
  *count = kRows;
  return lines;
}

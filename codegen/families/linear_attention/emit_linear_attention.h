// SPDX-License-Identifier: Apache-2.0
// The kernels of a LinearAttention: one for few tokens, and two for prompts.
#pragma once

#include "codegen/emit/kernel_request.h"
#include "codegen/families/linear_attention/linear_attention_problem.h"

namespace sinter::codegen {

/// Token by token: token_states.cuh. `table`: leaves out what has chunks in it.
EmittedKernel emit_token_states(const LinearAttentionProblem& problem, const KernelRequest& request,
                                ExprTable& exprs, std::optional<std::uint32_t> table = {});
/// The chunks of a ragged batch: chunk_table.cuh.
EmittedKernel emit_chunk_table(const LinearAttentionProblem& problem, const ChunkBuffers& buffers,
                               const KernelRequest& request, ExprTable& exprs);
/// Chunks, first without and then with their states: chunk_operands.cuh, chunk_states.cuh. They
/// meet in records of LinearAttentionProblem::record_bytes() for each of chunks().
EmittedKernel emit_chunk_operands(const LinearAttentionProblem& problem,
                                  const ChunkBuffers& buffers, const KernelRequest& request,
                                  ExprTable& exprs);
EmittedKernel emit_chunk_states(const LinearAttentionProblem& problem, const ChunkBuffers& buffers,
                                const std::string& schedule, const KernelRequest& request,
                                ExprTable& exprs);

}  // namespace sinter::codegen

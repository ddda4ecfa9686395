// SPDX-License-Identifier: Apache-2.0
// The prologue of a region of kind "attention": its queries, and the row that a step adds to a
// cache of keys and to one of values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/attention/attention_program.h"

namespace sinter::codegen {

/// The Fused nodes of such a region: pointwise queries, two scatters into caches, and the
/// attention, the only reader of the queries (maybe reshaped). Scatters into 8-bit caches have two
/// results: rows and scales.
struct AttentionParts {
  const Node *q = nullptr, *attention = nullptr;
  std::vector<const Node*> scatters;
};
/// Nothing for a region of only views and an Attention. Throws Error(kInternal) for any other form.
std::optional<AttentionParts> attention_parts(const Graph& body);

/// The plan's buffers of a part's inputs. `inputs` and `outputs` are the region's. `queries` is the
/// buffer of the queries, or kPrologueValue.
std::vector<std::uint32_t> part_reads(const Graph& body, const AttentionParts& parts,
                                      const Node& part, Buffers inputs, Buffers outputs,
                                      std::uint32_t queries);
/// The plan's buffers of those results of a part that are results of the region.
std::vector<std::uint32_t> part_writes(const Graph& body, const Node& part, Buffers outputs);

/// The whole region as one problem with AttentionProgram::front: each block computes the parts that
/// it needs. Nothing, with `refusal`, for other forms. Supported: one new row for each head and
/// sequence, at one index for all, and up to 16 queries that share it.
std::optional<AttentionProgram> lower_with_prologue(const Graph& body, const AttentionParts& parts,
                                                    Buffers inputs, Buffers outputs,
                                                    ExprTable& exprs, std::string& refusal);

/// A function that computes and stores one vector of elements. Parameters are `buffers`, `sizes`,
/// the vector's index and a function that waits for the preceding step. It calls that once, after
/// loads of memory that no step writes if these come first. Otherwise a second function of buffers
/// and sizes may prefetch such memory into the L2.
struct OperandFunction {
  std::string name, text;
  std::string fetch;                   // name of the prefetch function; empty if there is none
  std::vector<std::uint32_t> buffers;  // AttentionProgram's or kPrologueValue, as pointers
  std::vector<std::uint32_t> sizes;    // expressions
  int vector = 1;                      // elements
  const char* number = "u32";          // type of the vector's index
};

/// Computes `rows` of `width` elements of an item, one vector at a time. `facts`: types of the
/// attention's buffers, which of them no step writes, and options of the kernel.
OperandFunction prologue_function(const AttentionProgram& attention, const PrologueOperand& made,
                                  std::int64_t width, const std::string& name,
                                  const KernelRequest& facts, ExprTable& exprs);

}  // namespace sinter::codegen

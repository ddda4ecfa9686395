// What a region of kind "attention" computes in front of the attention: its queries, and the row
// that a step adds to a cache of keys and to one of values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/families/attention/attention_lowering.h"

namespace sinter::codegen {

/// The Fused nodes of such a region: pointwise queries, two scatters into caches, and the attention
/// that alone reads the queries, maybe reshaped.
struct AttentionParts {
  const ir::Node *q = nullptr, *attention = nullptr;
  std::vector<const ir::Node*> scatters;
};
/// Nothing for a region of views and an Attention. Throws Error(kInternal) for anything else.
std::optional<AttentionParts> attention_parts(const ir::Graph& body);

/// The plan's buffers of a part's inputs; of the queries: `queries`. Those of the region are
/// `inputs` and `outputs`.
std::vector<std::uint32_t> part_reads(const ir::Graph& body, const AttentionParts& parts,
                                      const ir::Node& part, std::span<const std::uint32_t> inputs,
                                      std::span<const std::uint32_t> outputs,
                                      std::uint32_t queries);
/// The plan's buffer of a part's result.
std::uint32_t part_writes(const ir::Graph& body, const ir::Node& part,
                          std::span<const std::uint32_t> outputs);

/// The whole region as one problem, with AttentionProgram::front, whose blocks each compute what
/// they need of it. Nothing, and `refusal`, if it is not of the form that this takes: one row a
/// head and sequence, at the same place for all of them, and up to 16 queries that share it.
std::optional<AttentionProgram> lower_with_prologue(const ir::Graph& body,
                                                    const AttentionParts& parts,
                                                    std::span<const std::uint32_t> inputs,
                                                    std::span<const std::uint32_t> outputs,
                                                    ExprTable& exprs, std::string& refusal);

}  // namespace sinter::codegen

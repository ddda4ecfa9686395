// What a region of kind "attention" computes in front of the attention: its queries, and the row
// that a step adds to a cache of keys and to one of values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/attention/attention_program.h"

namespace sinter::codegen {

/// The Fused nodes of such a region: pointwise queries, two scatters into caches, and the attention
/// that alone reads the queries, maybe reshaped. Those into caches of 8 bits have two results each:
/// they make the rows and their scales.
struct AttentionParts {
  const Node *q = nullptr, *attention = nullptr;
  std::vector<const Node*> scatters;
};
/// Nothing for a region of views and an Attention. Throws Error(kInternal) for anything else.
std::optional<AttentionParts> attention_parts(const Graph& body);

/// The plan's buffers of a part's inputs. Those of the region are `inputs` and `outputs`, that of
/// the queries is `queries`: one of the plan, or kPrologueValue.
std::vector<std::uint32_t> part_reads(const Graph& body, const AttentionParts& parts,
                                      const Node& part, Buffers inputs, Buffers outputs,
                                      std::uint32_t queries);
/// The plan's buffers of the results of a part that are results of the region.
std::vector<std::uint32_t> part_writes(const Graph& body, const Node& part, Buffers outputs);

/// The whole region as one problem, with AttentionProgram::front, whose blocks each compute what
/// they need of it. Nothing, and `refusal`, if it is not of the form that this takes: one row a
/// head and sequence, at the same place for all of them, and up to 16 queries that share it.
std::optional<AttentionProgram> lower_with_prologue(const Graph& body, const AttentionParts& parts,
                                                    Buffers inputs, Buffers outputs,
                                                    ExprTable& exprs, std::string& refusal);

/// A function of `buffers`, `sizes`, the number of a vector of elements, which it computes and
/// stores, and what waits for the step in front: it calls that once, behind loads of what no step
/// writes where these come first. Else there may be one of buffers and sizes that has the L2 fetch
/// such.
struct PrologueFunction {
  std::string name, text;
  std::string fetch;                   // the other's name; empty: there is none
  std::vector<std::uint32_t> buffers;  // AttentionProgram's or kPrologueValue: pointers
  std::vector<std::uint32_t> sizes;    // expressions
  int vector = 1;                      // elements
  const char* number = "u32";          // the type of a vector's
};

/// `rows` of `width` elements each of an item are made vector by vector. `facts`: types of the
/// attention's buffers, which of them no step writes, and what holds for the kernel as a whole.
PrologueFunction prologue_function(const AttentionProgram& attention, const PrologueOperand& made,
                                   std::int64_t width, const std::string& name,
                                   const KernelRequest& facts, ExprTable& exprs);

}  // namespace sinter::codegen

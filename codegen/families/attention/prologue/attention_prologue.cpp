// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/prologue/attention_prologue.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/attention/attention_lowering.h"
#include "codegen/program/loop_lowering.h"
#include "codegen/program/region_space.h"
#include "codegen/targets/device_model.h"
#include "ir/scaled_rows.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

constexpr std::uint8_t kReplaces = 255;  // InstrT::op of a Scatter

struct Refusal {
  std::string why;
};

/// Strides of a dense array over the program's loops.
std::vector<Dim> dense_strides(const LoopProgramT& program, const ExprTable& exprs) {
  std::vector<Dim> strides(program.extents.size());
  Dim stride = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= exprs.dim(program.extents[d]);
  }
  return strides;
}

/// The only store instruction, which must be of `kind`.
InstrT& only_store(const LoopProgramT& program, InstrKind kind) {
  InstrT* found = nullptr;
  for (const auto& instr : program.instrs) {
    if (instr->kind == InstrKind::Reduce || instr->kind == InstrKind::Scan)
      throw Refusal{"what is computed in front has reductions"};
    if (!plan::is_store(instr->kind)) continue;
    if (found || instr->kind != kind) throw Refusal{"what is computed in front has other results"};
    found = instr.get();
  }
  if (!found) throw Refusal{"nothing is stored in front"};
  return *found;
}

bool is_plain(const AccessT& access) {
  return access.gathers.empty() && access.nonaffine.empty() && access.guards.empty();
}

/// A Scatter and the part whose body contains it.
struct CacheWriter {
  const Node *part = nullptr, *scatter = nullptr;
};

/// Whether two Scatters of one body use the same indices, except for columns.
bool puts_at_same_places(const Node& a, const Node& b) {
  return a.inputs.size() == b.inputs.size() &&
         std::equal(a.inputs.begin() + 2, a.inputs.end() - 1, b.inputs.begin() + 2);
}

/// The body of the part with only this Scatter; a value that the Scatter writes and no node
/// computes becomes the last input.
Graph scatter_of_rows(const CacheWriter& writer) {
  const Graph& body = *writer.part->body;
  const Node& scatter = *writer.scatter;
  GraphBuilder builder(body.name());
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  std::vector<ValueId> inputs;
  for (const ValueId input : body.inputs())
    inputs.push_back(builder.input(body.value(input).name, body.type(input)));
  std::vector<ValueId> operands = ir::inline_graph(builder, body, inputs, scatter.inputs);
  operands[1] = builder.input("rows", body.type(scatter.inputs[1]));
  builder.output("next", builder.add(scatter.op->name, operands, scatter.attrs));
  return builder.finish();
}

class PrologueLowering {
 public:
  PrologueLowering(const Graph& body, const AttentionParts& parts, Buffers inputs, Buffers outputs,
                   ExprTable& exprs)
      : body_(body), parts_(parts), inputs_(inputs), outputs_(outputs), exprs_(exprs) {}

  AttentionProgram lower() {
    program_ = lower_attention(*parts_.attention->body, reads(*parts_.attention),
                               part_writes(body_, *parts_.attention, outputs_), exprs_);
    group_rows(program_);
    if (program_.tables && program_.bounds) throw Refusal{"there are several sequences"};
    // Which tile is the first is known behind the preceding step alone.
    if (program_.window > 0) throw Refusal{"a window moves with the new row"};
    if (program_.causal != 0 || program_.has_row_limits())
      throw Refusal{"its rows see different keys"};
    if (program_.head % 8 != 0 || program_.value_head % 8 != 0)
      throw Refusal{"its heads are no multiples of 8"};
    if (!program_.rows.is_constant() || program_.rows.value() > kAttentionPrologueRows)
      throw Refusal{fmt::format("more than {} queries share keys", kAttentionPrologueRows)};
    if (program_.buffers[program_.q.buffer] != kPrologueValue)
      throw Refusal{"its queries are not made in front"};
    const std::uint32_t k = program_.buffers[program_.k.buffer],
                        v = program_.buffers[program_.v.buffer];
    forget_queries();
    program_.front.emplace();
    AttentionPrologue& front = *program_.front;
    front.q = queries();
    Slot at_k, at_v;
    const CacheWriter keys = writer_of(k), values = writer_of(v);
    front.k = row(keys, k, program_.k, program_.head, at_k);
    front.v = row(values, v, program_.v, program_.value_head, at_v);
    if (program_.key_scales) {
      make_exact(front.k, keys, program_.k, *program_.key_scales, program_.head);
      make_exact(front.v, values, program_.v, *program_.value_scales, program_.value_head);
    }
    if (at_k.buffer != at_v.buffer || at_k.offset != at_v.offset)
      throw Refusal{"keys and values have their new rows at different places"};
    front.slot_buffer = program_.number_of(at_k.buffer);
    front.slot_type = at_k.type;
    front.slot_offset = at_k.offset;
    return std::move(program_);
  }

 private:
  struct Slot {
    std::uint32_t buffer = 0;
    DType type = DType::kInt64;
    Dim offset;
  };

  CacheWriter writer_of(std::uint32_t cache) const {
    for (const Node* part : parts_.scatters) {
      const std::vector<std::uint32_t> writes = part_writes(body_, *part, outputs_);
      const auto at = std::ranges::find(writes, cache) - writes.begin();
      if (at == std::ssize(writes)) continue;
      const Node* made = part->body->producer(part->body->outputs()[static_cast<std::size_t>(at)]);
      if (made != nullptr && made->op->scatter() != nullptr) return {part, made};
    }
    throw Refusal{"keys and values are not what is put into the caches"};
  }

  std::vector<std::uint32_t> reads(const Node& part) const {
    return part_reads(body_, parts_, part, inputs_, outputs_, kPrologueValue);
  }

  /// Removes the buffer of the queries, which are never stored.
  void forget_queries() {
    const std::uint32_t gone = program_.q.buffer;
    program_.buffers.erase(program_.buffers.begin() + gone);
    for (AttentionOperand* operand : program_.operands()) {
      if (operand == &program_.q) continue;
      if (operand->buffer == gone) throw Refusal{"its queries are its keys, too"};
      if (operand->buffer > gone) --operand->buffer;
    }
    program_.q.buffer = kPrologueValue;
  }

  PrologueOperand queries() {
    const std::uint32_t writes[] = {kPrologueValue};
    PrologueOperand made;
    made.program = lower_region(*parts_.q->body, reads(*parts_.q), writes, exprs_);
    if (!stores_densely(made.program) || program_.q.column != Dim(1))
      throw Refusal{"its queries are not dense"};
    made.offset = program_.q.offset;
    made.row = program_.q.row;
    made.batch = program_.q.batch;
    renumber(made.program);
    return made;
  }

  bool stores_densely(LoopProgramT& program) const {
    const AccessT& access = *program.accesses[only_store(program, InstrKind::Store).access];
    const std::vector<Dim> dense = dense_strides(program, exprs_);
    bool is_dense = is_plain(access) && exprs_.dim(access.offset) == Dim(0);
    for (std::size_t d = 0; d < dense.size(); ++d)
      is_dense = is_dense && (exprs_.dim(program.extents[d]) == Dim(1) ||
                              exprs_.dim(access.strides[d]) == dense[d]);
    return is_dense;
  }

  /// Finds which of the 8-bit rows of `writer` belongs to `made`, and replaces it by the value
  /// before rounding: the kernel rounds it itself.
  void make_exact(PrologueOperand& made, const CacheWriter& writer, const AttentionOperand& operand,
                  const AttentionOperand& scales, std::int64_t head) {
    const CacheWriter row_scales = writer_of(program_.buffers[scales.buffer]);
    if (row_scales.part != writer.part) throw Refusal{"rows of 8 bits are not made in front"};
    if (!lie_as_rows_do(operand, scales, head) ||
        !puts_at_same_places(*writer.scatter, *row_scales.scatter))
      throw Refusal{"scales lie otherwise than the rows of the cache do"};
    const ir::ScaledRows rows{writer.scatter->inputs[1], row_scales.scatter->inputs[1]};
    const auto exact = ir::rows_before_rounding(*writer.part->body, rows, program_.dtype);
    if (!exact) throw Refusal{"rows of 8 bits are made otherwise than the kernel does"};
    const std::uint32_t writes[] = {kPrologueValue};
    made.program = lower_region(*exact, reads(*writer.part), writes, exprs_);
    if (!stores_densely(made.program)) throw Refusal{"rows of 8 bits are not made densely"};
    renumber(made.program);
  }

  /// Whether rows and their scales have proportional strides.
  static bool lie_as_rows_do(const AttentionOperand& rows, const AttentionOperand& scales,
                             std::int64_t head) {
    const auto same = [&](const Dim& row, const Dim& scale) { return row == scale * Dim(head); };
    return same(rows.offset, scales.offset) && same(rows.row, scales.row) &&
           std::ranges::equal(rows.batch, scales.batch, same);
  }

  /// The row that `writer` stores into `cache`, which attention reads as `operand`.
  PrologueOperand row(const CacheWriter& writer, std::uint32_t cache,
                      const AttentionOperand& operand, std::int64_t head, Slot& slot) {
    const std::uint32_t writes[] = {cache};
    PrologueOperand made;
    LoopProgramT& program = made.program;
    std::vector<std::uint32_t> found = reads(*writer.part);
    if (program_.key_scales) {
      found.push_back(kPrologueValue);
      program = lower_region(scatter_of_rows(writer), found, writes, exprs_);
    } else {
      program = lower_region(*writer.part->body, found, writes, exprs_);
    }
    InstrT& store = only_store(program, InstrKind::Scatter);
    AccessT& access = *program.accesses[store.access];
    if (store.op != kReplaces || access.gathers.size() != 1 || !access.nonaffine.empty() ||
        !access.guards.empty() || program.buffers[access.buffer] != cache)
      throw Refusal{"what goes into the cache is not put at one place each"};
    for (const auto& other : program.accesses)
      if (other.get() != &access && program.buffers[other->buffer] == cache)
        throw Refusal{"the cache's old rows are read in front"};
    const plan::fb::Gather gather = access.gathers[0];
    if (exprs_.dim(gather.stride()) != operand.row ||
        exprs_.dim(gather.extent()) != program_.keys || exprs_.dim(access.offset) != operand.offset)
      throw Refusal{"what goes into the cache is no row that the attention reads"};
    slot = slot_of(program, gather.value());
    find_items(made, access, operand, head);
    // Stores the row densely instead of into the cache.
    const std::vector<Dim> dense = dense_strides(program, exprs_);
    access.gathers.clear();
    access.offset = exprs_.intern(Dim(0));
    for (std::size_t d = 0; d < dense.size(); ++d) access.strides[d] = exprs_.intern(dense[d]);
    program.buffers[access.buffer] = kPrologueValue;
    store.kind = InstrKind::Store;
    store.op = 0;
    renumber(program);
    return made;
  }

  /// The address of the one integer that `value` loads, or widens.
  Slot slot_of(const LoopProgramT& program, std::uint32_t value) const {
    const InstrT& made = *program.instrs[value];
    const bool widens = made.kind == InstrKind::Op &&
                        static_cast<ScalarOp>(made.op) == ScalarOp::kCast &&
                        static_cast<DType>(made.dtype) == DType::kInt64 &&
                        static_cast<DType>(program.instrs[made.args[0]]->dtype) == DType::kInt32;
    const InstrT& load = widens ? *program.instrs[made.args[0]] : made;
    const char* const why = "the place of the new row is computed, or not one for all sequences";
    if (load.kind != InstrKind::Load) throw Refusal{why};
    const AccessT& access = *program.accesses[load.access];
    if (!is_plain(access)) throw Refusal{why};
    for (std::size_t d = 0; d < program.extents.size(); ++d)
      if (exprs_.dim(program.extents[d]) != Dim(1) && exprs_.dim(access.strides[d]) != Dim(0))
        throw Refusal{why};
    return {program.buffers[access.buffer], static_cast<DType>(load.dtype),
            exprs_.dim(access.offset)};
  }

  /// Maps updates to items: every batch axis must stride the cache as a loop does, and the last
  /// loop as its columns do.
  void find_items(PrologueOperand& made, const AccessT& access, const AttentionOperand& operand,
                  std::int64_t head) const {
    const LoopProgramT& program = made.program;
    const std::size_t rank = program.extents.size();
    const auto extent = [&](std::size_t d) { return exprs_.dim(program.extents[d]); };
    const auto stride = [&](std::size_t d) { return exprs_.dim(access.strides[d]); };
    if (rank == 0 || extent(rank - 1) != Dim(head) || stride(rank - 1) != Dim(1) ||
        operand.column != Dim(1))
      throw Refusal{"what goes into the cache is no row of its columns"};
    // Merges loops whose updates are as dense in the cache as in a dense array.
    struct Walk {
      Dim extent, stride, dense;
    };
    const std::vector<Dim> dense = dense_strides(program, exprs_);
    std::vector<Walk> walks;
    Dim rows = 1, found = 1;
    for (std::size_t d = 0; d + 1 < rank; ++d) {
      rows *= extent(d);
      if (!walks.empty() && walks.back().stride == extent(d) * stride(d))
        walks.back() = {walks.back().extent * extent(d), stride(d), dense[d]};
      else
        walks.push_back({extent(d), stride(d), dense[d]});
    }
    for (std::size_t axis = 0; axis < program_.batch.size(); ++axis) {
      const Dim& count = program_.batch[axis];
      made.batch.emplace_back(0);
      if (count == Dim(1) || operand.batch[axis] == Dim(0)) continue;
      const auto walk = std::ranges::find_if(walks, [&](const Walk& one) {
        // An axis may cover part of a loop, several steps at a time.
        const auto times = ir::divide_exactly(operand.batch[axis], one.stride);
        return times && ir::divide_exactly(one.extent, *times * count);
      });
      if (walk == walks.end())
        throw Refusal{"the batch does not walk the cache as what is put there does"};
      made.batch.back() = *ir::divide_exactly(operand.batch[axis], walk->stride) * walk->dense;
      found *= count;
    }
    if (found != rows) throw Refusal{"it adds more or less than a row to each head's cache"};
    made.offset = 0;
    made.row = 0;
  }

  void renumber(LoopProgramT& program) {
    for (std::uint32_t& buffer : program.buffers)
      if (buffer != kPrologueValue) buffer = program_.number_of(buffer);
  }

  const Graph& body_;
  const AttentionParts& parts_;
  Buffers inputs_, outputs_;
  ExprTable& exprs_;
  AttentionProgram program_;
};

}  // namespace

std::optional<AttentionParts> attention_parts(const Graph& body) {
  AttentionParts parts;
  for (const Node& node : body.nodes()) {
    if (node.op->kind != OpKind::kFused) continue;
    const std::string& kind = node.attrs.get_string("kind");
    if (kind == "pointwise") parts.q = &node;
    if (kind == "scatter") parts.scatters.push_back(&node);
    if (kind == "attention") parts.attention = &node;
  }
  if (!parts.q && parts.scatters.empty() && !parts.attention) return std::nullopt;
  if (!parts.q || parts.scatters.size() != 2 || !parts.attention)
    throw Error(ErrorCode::kInternal, "an attention region with other parts than it may have");
  return parts;
}

std::vector<std::uint32_t> part_reads(const Graph& body, const AttentionParts& parts,
                                      const Node& part, Buffers inputs, Buffers outputs,
                                      std::uint32_t queries) {
  const auto at = [](const std::vector<ValueId>& list, ValueId value) {
    return static_cast<std::size_t>(std::ranges::find(list, value) - list.begin());
  };
  std::vector<std::uint32_t> reads;
  for (const ValueId input : part.inputs) {
    const ValueId value = root_of(body, input);
    if (const Node* made = body.producer(value); made == parts.q) {
      reads.push_back(queries);
    } else if (made && made->body) {
      reads.push_back(part_writes(body, *made, outputs)[at(made->outputs, value)]);
    } else {
      const auto number = body.input_number(value);
      if (!number)
        throw Error(ErrorCode::kInternal, "a part of an attention region reads no input of it");
      reads.push_back(inputs[*number]);
    }
  }
  return reads;
}

std::vector<std::uint32_t> part_writes(const Graph& body, const Node& part, Buffers outputs) {
  std::vector<std::uint32_t> writes;
  for (const ValueId value : part.outputs) {
    const auto at = std::ranges::find_if(
        body.outputs(), [&](ValueId output) { return root_of(body, output) == value; });
    if (at == body.outputs().end())
      throw Error(ErrorCode::kInternal, "an attention region computes what nothing reads");
    writes.push_back(outputs[static_cast<std::size_t>(at - body.outputs().begin())]);
  }
  return writes;
}

std::optional<AttentionProgram> lower_with_prologue(const Graph& body, const AttentionParts& parts,
                                                    Buffers inputs, Buffers outputs,
                                                    ExprTable& exprs, std::string& refusal) {
  try {
    AttentionProgram program = PrologueLowering(body, parts, inputs, outputs, exprs).lower();
    return program;
  } catch (const Refusal& found) {
    refusal = found.why;
    return std::nullopt;
  }
}

}  // namespace sinter::codegen

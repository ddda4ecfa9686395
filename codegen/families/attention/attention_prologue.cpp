#include "codegen/families/attention/attention_prologue.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/program/loop_lowering.h"
#include "codegen/program/region_space.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

constexpr std::int64_t kMostQueries = 16;  // of a block: see AttentionShape::kRows
constexpr std::uint8_t kReplaces = 255;    // InstrT::op of a Scatter

struct Refusal {
  std::string why;
};

/// Elements of a dense array over the program's loops from one index to the next.
std::vector<Dim> dense_strides(const LoopProgramT& program, const ExprTable& exprs) {
  std::vector<Dim> strides(program.extents.size());
  Dim stride = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= exprs.dim(program.extents[d]);
  }
  return strides;
}

/// The one instruction that stores, which is of `kind`.
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

class PrologueLowering {
 public:
  PrologueLowering(const Graph& body, const AttentionParts& parts, Buffers inputs, Buffers outputs,
                   ExprTable& exprs)
      : body_(body), parts_(parts), inputs_(inputs), outputs_(outputs), exprs_(exprs) {}

  AttentionProgram lower() {
    const std::uint32_t writes[] = {part_writes(body_, *parts_.attention, outputs_)};
    program_ = lower_attention(*parts_.attention->body, reads(*parts_.attention), writes, exprs_);
    if (program_.causal != 0 || program_.has_row_limits())
      throw Refusal{"its rows see different keys"};
    if (!program_.rows.is_constant() || program_.rows.value() > kMostQueries)
      throw Refusal{fmt::format("more than {} queries share keys", kMostQueries)};
    if (program_.buffers[program_.q.buffer] != kPrologueValue)
      throw Refusal{"its queries are not made in front"};
    const std::uint32_t k = program_.buffers[program_.k.buffer],
                        v = program_.buffers[program_.v.buffer];
    forget_queries();
    program_.front.emplace();
    AttentionPrologue& front = *program_.front;
    front.q = queries();
    Place at_k, at_v;
    front.k = row(scatter_into(k), k, program_.k, program_.head, at_k);
    front.v = row(scatter_into(v), v, program_.v, program_.value_head, at_v);
    if (at_k.buffer != at_v.buffer || at_k.offset != at_v.offset)
      throw Refusal{"keys and values have their new rows at different places"};
    front.place_buffer = program_.number_of(at_k.buffer);
    front.place_type = at_k.type;
    front.place_offset = at_k.offset;
    return std::move(program_);
  }

 private:
  struct Place {
    std::uint32_t buffer = 0;
    DType type = DType::kInt64;
    Dim offset;
  };

  const Node& scatter_into(std::uint32_t cache) const {
    for (const Node* part : parts_.scatters)
      if (part_writes(body_, *part, outputs_) == cache) return *part;
    throw Refusal{"keys and values are not what is put into the caches"};
  }

  std::vector<std::uint32_t> reads(const Node& part) const {
    return part_reads(body_, parts_, part, inputs_, outputs_, kPrologueValue);
  }

  /// Takes the buffer that there is not out of the kernel's.
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
    const InstrT& store = only_store(made.program, InstrKind::Store);
    const AccessT& access = *made.program.accesses[store.access];
    const std::vector<Dim> dense = dense_strides(made.program, exprs_);
    bool is_dense = is_plain(access) && exprs_.dim(access.offset) == Dim(0);
    for (std::size_t d = 0; d < dense.size(); ++d)
      is_dense = is_dense && (exprs_.dim(made.program.extents[d]) == Dim(1) ||
                              exprs_.dim(access.strides[d]) == dense[d]);
    if (!is_dense || program_.q.column != Dim(1)) throw Refusal{"its queries are not dense"};
    made.offset = program_.q.offset;
    made.row = program_.q.row;
    made.batch = program_.q.batch;
    renumber(made.program);
    return made;
  }

  /// What `part` scatters into `cache`, which the attention reads as `operand`.
  PrologueOperand row(const Node& part, std::uint32_t cache, const AttentionOperand& operand,
                      std::int64_t head, Place& place) {
    const std::uint32_t writes[] = {cache};
    PrologueOperand made;
    LoopProgramT& program = made.program;
    program = lower_region(*part.body, reads(part), writes, exprs_);
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
    place = place_of(program, gather.value());
    find_items(made, access, operand, head);
    // The row itself, densely, instead of into the cache.
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

  /// Where the one integer lies that `value` is.
  Place place_of(const LoopProgramT& program, std::uint32_t value) const {
    const InstrT& load = *program.instrs[value];
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

  /// Which updates are whose: every axis of the batch walks the cache as a loop does, the last loop
  /// as its columns do.
  void find_items(PrologueOperand& made, const AccessT& access, const AttentionOperand& operand,
                  std::int64_t head) const {
    const LoopProgramT& program = made.program;
    const std::size_t rank = program.extents.size();
    const auto extent = [&](std::size_t d) { return exprs_.dim(program.extents[d]); };
    const auto stride = [&](std::size_t d) { return exprs_.dim(access.strides[d]); };
    if (rank == 0 || extent(rank - 1) != Dim(head) || stride(rank - 1) != Dim(1) ||
        operand.column != Dim(1))
      throw Refusal{"what goes into the cache is no row of its columns"};
    // Loops whose updates lie in the cache as in a dense array are one.
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
        // An axis may be a part of it: so many of its steps each.
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
    if (!node.body) continue;
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
  std::vector<std::uint32_t> reads;
  for (const ValueId input : part.inputs) {
    const ValueId value = root_of(body, input);
    if (value == parts.q->outputs[0]) {
      reads.push_back(queries);
    } else if (const Node* made = body.producer(value); made && made->body) {
      reads.push_back(part_writes(body, *made, outputs));
    } else {
      const auto at = body.input_number(value);
      if (!at)
        throw Error(ErrorCode::kInternal, "a part of an attention region reads no input of it");
      reads.push_back(inputs[*at]);
    }
  }
  return reads;
}

std::uint32_t part_writes(const Graph& body, const Node& part, Buffers outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (root_of(body, body.outputs()[i]) == part.outputs[0]) return outputs[i];
  throw Error(ErrorCode::kInternal, "an attention region computes what nothing reads");
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

#include "codegen/families/attention/attention_prologue.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/attention/attention_lowering.h"
#include "codegen/program/loop_lowering.h"
#include "codegen/program/region_space.h"
#include "ir/scaled_rows.h"
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

/// Nodes of a part's body in `builder`, by their values in the body; those of the inputs are given.
std::map<ValueId, ValueId> copy_body(GraphBuilder& builder, const Graph& body,
                                     std::map<ValueId, ValueId> mapped) {
  for (const Node& node : body.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      if (body.is_constant(input)) mapped[input] = builder.constant(body.value(input).constant);
      inputs.push_back(mapped.at(input));
    }
    const auto made = builder.add_multi(node.op->name, std::move(inputs), node.attrs, node.body);
    for (std::size_t i = 0; i < made.size(); ++i) mapped[node.outputs[i]] = made[i];
  }
  return mapped;
}

/// Whether two scatters, parts of `graph`, have the same places but for their columns. Equal nodes
/// of one builder are one.
bool puts_at_same_places(const Graph& graph, const Node& a, const Node& b) {
  GraphBuilder builder("places");
  std::map<ValueId, ValueId> outer;
  const auto places = [&](const Node& part) {
    std::map<ValueId, ValueId> mapped;
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      const ValueId value = root_of(graph, part.inputs[i]);
      const TensorType& type = part.body->type(part.body->inputs()[i]);
      if (!outer.contains(value)) outer[value] = builder.placeholder(type);
      if (!(builder.type(outer[value]) == type))
        throw Refusal{"the places of rows of 8 bits and of their scales have two shapes"};
      mapped[part.body->inputs()[i]] = outer[value];
    }
    mapped = copy_body(builder, *part.body, std::move(mapped));
    std::vector<ValueId> found;
    for (const Node& node : part.body->nodes())
      if (node.op->scatter() != nullptr)
        for (std::size_t i = 2; i + 1 < node.inputs.size(); ++i)
          found.push_back(mapped.at(node.inputs[i]));
    return found;
  };
  return places(a) == places(b);
}

/// The body of `part`, which makes rows of 8 bits `values` and their `scales`, with the rows before
/// they are rounded as its only result, in `type`. Nothing if it makes them otherwise than the
/// kernel does.
std::optional<Graph> exact_rows(const Node& part, ValueId values, ValueId scales, DType type) {
  const auto output_of = [&](ValueId value) {
    const auto at = std::ranges::find(part.outputs, value);
    return at == part.outputs.end()
               ? ValueId{}
               : part.body->outputs()[static_cast<std::size_t>(at - part.outputs.begin())];
  };
  const ir::ScaledRows rows{output_of(values), output_of(scales)};
  if (!rows.values.valid() || !rows.scales.valid()) return std::nullopt;
  return ir::rows_before_rounding(*part.body, rows, type);
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
    if (program_.key_scales) {
      make_exact(front.k, k, program_.k, *program_.key_scales, program_.head);
      make_exact(front.v, v, program_.v, *program_.value_scales, program_.value_head);
    }
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
    InnerBuffers inner;
    for (const ValueId value : parts_.inner_values()) inner[value] = kPrologueValue;
    return part_reads(body_, part, inputs_, outputs_, inner);
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

  /// `made` says which of the rows of 8 bits, that another part makes for `cache`, is whose. It
  /// becomes what makes the rows before they are rounded: the kernel rounds them itself.
  void make_exact(PrologueOperand& made, std::uint32_t cache, const AttentionOperand& operand,
                  const AttentionOperand& scales, std::int64_t head) {
    const Node& rows = scatter_into(cache);
    const Node& row_scales = scatter_into(program_.buffers[scales.buffer]);
    if (!lie_as_rows_do(operand, scales, head) || !puts_at_same_places(body_, rows, row_scales))
      throw Refusal{"scales lie otherwise than the rows of the cache do"};
    const Node* source = body_.producer(root_of(body_, update_of(rows)));
    if (source == nullptr || std::ranges::find(parts_.rows, source) == parts_.rows.end())
      throw Refusal{"rows of 8 bits are not made in front"};
    const auto exact = exact_rows(*source, root_of(body_, update_of(rows)),
                                  root_of(body_, update_of(row_scales)), program_.dtype);
    if (!exact) throw Refusal{"rows of 8 bits are made otherwise than the kernel does"};
    const std::uint32_t writes[] = {kPrologueValue};
    made.program = lower_region(*exact, reads(*source), writes, exprs_);
    if (!stores_densely(made.program)) throw Refusal{"rows of 8 bits are not made densely"};
    renumber(made.program);
  }

  /// Whether each step along rows is one along their scales.
  static bool lie_as_rows_do(const AttentionOperand& rows, const AttentionOperand& scales,
                             std::int64_t head) {
    const auto same = [&](const Dim& row, const Dim& scale) { return row == scale * Dim(head); };
    return same(rows.offset, scales.offset) && same(rows.row, scales.row) &&
           std::ranges::equal(rows.batch, scales.batch, same);
  }

  /// What the one Scatter of `part` puts into its cache, outside of it.
  ValueId update_of(const Node& part) const {
    for (const Node& node : part.body->nodes())
      if (node.op->scatter() != nullptr)
        if (const auto at = part.body->input_number(node.inputs[1])) return part.inputs[*at];
    throw Refusal{"what goes into a cache of 8 bits is changed on its way"};
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
    if (kind == "reduction") parts.rows.push_back(&node);
    if (kind == "scatter") parts.scatters.push_back(&node);
    if (kind == "attention") parts.attention = &node;
  }
  if (!parts.q && parts.scatters.empty() && !parts.attention) return std::nullopt;
  if (!parts.q || parts.scatters.size() != 2 + parts.rows.size() || !parts.attention)
    throw Error(ErrorCode::kInternal, "an attention region with other parts than it may have");
  return parts;
}

std::vector<ValueId> AttentionParts::inner_values() const {
  std::vector<ValueId> all{q->outputs[0]};
  for (const Node* part : rows) all.insert(all.end(), part->outputs.begin(), part->outputs.end());
  return all;
}

std::vector<std::uint32_t> part_reads(const Graph& body, const Node& part, Buffers inputs,
                                      Buffers outputs, const InnerBuffers& inner) {
  std::vector<std::uint32_t> reads;
  for (const ValueId input : part.inputs) {
    const ValueId value = root_of(body, input);
    if (const auto known = inner.find(value); known != inner.end()) {
      reads.push_back(known->second);
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

// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/linear_attention/emit_linear_attention.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

constexpr std::int64_t kBlockThreads = 128;

/// How teams of threads hold the states of TokenStates.
struct TokenSchedule {
  std::int64_t slice = 1, width = 1, team = 1;

  std::string to_string() const {
    return fmt::format("linear_attention tokens slice={} width={} team={}", slice, width, team);
  }
};

TokenSchedule token_schedule(const LinearAttentionProblem& problem) {
  constexpr std::int64_t kVectorBytes = 16, kColumns = 32, kRows = 8;
  const std::int64_t keys = problem.key_size(), values = problem.value_size();
  TokenSchedule schedule;
  const std::int64_t widest =
      kVectorBytes / static_cast<std::int64_t>(size_of(problem.new_state.type));
  while (schedule.width < widest && values % (schedule.width * 2) == 0) schedule.width *= 2;
  schedule.slice = schedule.width;
  while (schedule.slice < kColumns && schedule.slice < values) schedule.slice *= 2;
  // A team is a part of a warp, or the block.
  const std::int64_t across = schedule.slice / schedule.width;
  const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(keys)));
  schedule.team = std::max(across, across * rows / std::min(kRows, rows));
  if (schedule.team > 32) schedule.team = kBlockThreads;
  return schedule;
}

/// A kernel of this family: its parameters, which are those of the problem that it uses, and its
/// text.
class StateEmitter {
 public:
  StateEmitter(const LinearAttentionProblem& problem, const KernelRequest& request,
               ExprTable& exprs, const char* header)
      : p_(problem), request_(request), exprs_(exprs), args_(exprs) {
    text_ =
        kernel_heading(request.name, request.origins) + fmt::format("#include \"{}\"\n", header);
  }

  struct Uses {
    bool sequences = false, states = false;
    bool batch = false;  // where its sequences and slots are
  };
  /// Declares the operands' parameters, and prints the types Shape and Layer and `layer`.
  void set_layer(const Uses& uses) {
    const std::string query = pointer("query", p_.query, uses.sequences),
                      key = pointer("key", p_.key, uses.sequences),
                      value = pointer("value", p_.value, uses.sequences),
                      decay = pointer("decay", p_.decay, uses.sequences),
                      beta = pointer("beta", p_.beta, uses.sequences),
                      erase = pointer("erase", p_.erase, uses.sequences),
                      state = pointer("state", p_.state, uses.states),
                      out = result("out", p_.out, uses.states),
                      new_state = result("new_state", p_.new_state, uses.states),
                      length = args_.dim(p_.layer.length),
                      starts = pointer("starts", p_.starts, uses.batch),
                      sources = pointer("sources", p_.sources, uses.states),
                      slots = pointer("slots", p_.slots, uses.batch);
    layer_ = fmt::format(
        "  typedef StateShape<{}, {}, /*keys*/ {}, /*values*/ {}, /*states*/ {},\n"
        "                     /*heads of queries, keys, values*/ {}, {}, {}>\n"
        "      Shape;\n"
        "  typedef StateLayer<{}, {}, {}, {}, {}, {}> Layer;\n"
        "  const Layer layer = {{{}, {}, {}, {}, {}, {},\n"
        "                       {}, {}, {}, {}, {:.9e}f, {}, {}, {}}};\n",
        rule(), gate(), p_.key_size(), p_.value_size(), p_.layer.heads(), p_.layer.query_heads,
        p_.layer.key_heads, p_.layer.value_heads, storage_name(p_.query.type), type_of(p_.decay),
        type_of(p_.beta), type_of(p_.erase), storage_name(p_.new_state.type), p_.layer.is_ragged(),
        query, key, value, decay, beta, erase, state, out, new_state, length,
        static_cast<double>(static_cast<float>(p_.layer.scale)), starts, sources, slots);
  }
  KernelParameters& args() { return args_; }
  /// What a kernel's text asserts of its type `Kernel` at compile time.
  void check(std::string condition) { check_ = std::move(condition); }

  struct Launch {
    std::string schedule;
    Dim blocks;
    int threads = 0;
    std::int64_t shared_bytes = 0;  // 0: static
    std::vector<Condition> conditions = {};
  };
  /// `kernel`: the type that does the work on `layer` and `memory`, with more arguments. `run`: its
  /// function.
  void add(const Launch& launch, const std::string& kernel, const std::string& more,
           const std::string& run = "run()") {
    auto& variants = kernel_.step.variants;
    const std::string function =
        variants.empty() ? request_.name : fmt::format("{}_v{}", request_.name, variants.size());
    const std::string end = args_.end_of_blocks(launch.blocks, "blockIdx.x");
    text_ += fmt::format("\n// schedule: {}\n", launch.schedule);
    if (!launch.conditions.empty())
      text_ += fmt::format("// where {}\n", conditions_text(launch.conditions, exprs_));
    text_ += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}{}{}", launch.threads,
        signature_text(function, args_.texts()),
        request_.programmatic_launch ? "  launch_dependents();\n  grid_dependency_wait();\n" : "",
        args_.lines(), end, layer_);
    text_ += fmt::format("  typedef {} Kernel;\n", kernel);
    if (!check_.empty())
      text_ += fmt::format("  static_assert({}, \"as the plan has it\");\n", check_);
    if (launch.shared_bytes > 0)
      text_ += fmt::format(
          "  static_assert(sizeof(Kernel::Memory) == {}, \"what the launch reserves\");\n"
          "  SINTER_DYNAMIC_SHARED(bytes);\n"
          "  Kernel::Memory& memory = *reinterpret_cast<Kernel::Memory*>(bytes);\n",
          launch.shared_bytes);
    else
      text_ += "  __shared__ Kernel::Memory memory;\n";
    text_ += fmt::format("  Kernel({}).{};\n}}\n", more, run);
    auto variant = std::make_unique<plan::fb::KernelVariantT>();
    variant->function = function;
    variant->schedule = launch.schedule;
    variant->conditions = launch.conditions;
    variant->grid = {exprs_.intern(launch.blocks), exprs_.intern(1), exprs_.intern(1)};
    variant->block = {static_cast<std::uint32_t>(launch.threads), 1, 1};
    variant->shared_bytes = static_cast<std::uint32_t>(launch.shared_bytes);
    variant->programmatic_launch = request_.programmatic_launch;
    variants.push_back(std::move(variant));
  }
  EmittedKernel finish() {
    kernel_.step.args = args_.args();
    kernel_.source = std::move(text_);
    return std::move(kernel_);
  }

 private:
  std::string rule() const {
    switch (p_.layer.rule) {
      case ir::UpdateRule::kDelta: return "kDelta";
      case ir::UpdateRule::kGeneralDelta: return "kGeneralDelta";
      case ir::UpdateRule::kLinear: break;
    }
    return "kLinear";
  }
  std::string gate() const {
    if (!p_.decay) return "kUngated";
    return p_.layer.by_channel ? "kGatedByChannel" : "kGatedByHead";
  }
  static std::string type_of(const std::optional<StateOperand>& operand) {
    return storage_name(operand ? operand->type : DType::kFloat32);
  }
  /// The parameter's name, or a null pointer.
  std::string pointer(const char* name, const std::optional<StateOperand>& operand, bool is_used) {
    if (!operand || !is_used) return "nullptr";
    args_.buffer(fmt::format("const {}* {}", storage_name(operand->type), name), operand->buffer);
    return name;
  }
  std::string result(const char* name, const StateOperand& operand, bool is_used) {
    if (!is_used) return "nullptr";
    args_.buffer(fmt::format("{}* {}", storage_name(operand.type), name), operand.buffer);
    return name;
  }

  const LinearAttentionProblem& p_;
  const KernelRequest& request_;
  ExprTable& exprs_;
  KernelParameters args_;
  std::string text_, layer_, check_;
  EmittedKernel kernel_;
};

}  // namespace

EmittedKernel emit_token_states(const LinearAttentionProblem& problem, const KernelRequest& request,
                                ExprTable& exprs, std::optional<std::uint32_t> table) {
  const TokenSchedule schedule = token_schedule(problem);
  const std::int64_t slices = (problem.value_size() + schedule.slice - 1) / schedule.slice;
  const Dim units = problem.layer.sequences * Dim(problem.layer.heads() * slices);
  StateEmitter emitter(problem, request, exprs, "token_states.cuh");
  emitter.set_layer({.sequences = true, .states = true, .batch = true});
  const std::string count = emitter.args().dim(units);
  if (table) emitter.args().buffer("int* table", *table);
  emitter.add(
      {schedule.to_string(),
       ir::ceil_div(units, Dim(kBlockThreads / schedule.team), exprs.ranges()), kBlockThreads},
      fmt::format("TokenStates<Shape, Layer, {}, {}, {}>", schedule.slice, schedule.width,
                  schedule.team),
      fmt::format("layer, memory, {}{}", count, table ? ", ChunkTable(table, layer.length)" : ""));
  return emitter.finish();
}

EmittedKernel emit_chunk_table(const LinearAttentionProblem& problem, const ChunkBuffers& buffers,
                               const KernelRequest& request, ExprTable& exprs) {
  constexpr int kTableThreads = 256;
  StateEmitter emitter(problem, request, exprs, "chunk_table.cuh");
  emitter.set_layer({.batch = true});
  emitter.args().buffer("int* table", *buffers.table);
  const std::string sequences = emitter.args().dim(problem.layer.sequences);
  emitter.check(fmt::format("ChunkTable::kLeastTokens == {} && Kernel::kMostTokens == {}",
                            kLeastRaggedChunk, kMostRaggedTokens));
  emitter.add({"linear_attention table", Dim(1), kTableThreads}, "ChunkTableWriter<Shape, Layer>",
              fmt::format("layer, memory, table, {}", sequences));
  return emitter.finish();
}

EmittedKernel emit_chunk_operands(const LinearAttentionProblem& problem,
                                  const ChunkBuffers& buffers, const KernelRequest& request,
                                  ExprTable& exprs) {
  StateEmitter emitter(problem, request, exprs, "chunk_operands.cuh");
  emitter.set_layer({.sequences = true});
  emitter.args().buffer("uint4* records", buffers.records);
  const std::string kernel = "ChunkOperands<Shape, Layer>";
  const Dim chunks = problem.chunks(exprs);
  std::string run = "run()";
  if (buffers.table) {
    emitter.args().buffer("int* table", *buffers.table);
    run = fmt::format("run_ragged(ChunkTable(table, layer.length), {})",
                      emitter.args().dim(problem.layer.sequences));
  }
  emitter.add({"linear_attention operands", chunks, kBlockThreads, operand_bytes(problem)}, kernel,
              "layer, memory, records", run);
  return emitter.finish();
}

EmittedKernel emit_chunk_states(const LinearAttentionProblem& problem, const ChunkBuffers& buffers,
                                const std::string& schedule, const KernelRequest& request,
                                ExprTable& exprs) {
  StateEmitter emitter(problem, request, exprs, "chunk_states.cuh");
  emitter.set_layer({.states = true});
  emitter.args().buffer("const uint4* records", buffers.records);
  std::string more = "layer, memory, records";
  if (buffers.table) {
    emitter.args().buffer("int* table", *buffers.table);
    more += ", ChunkTable(table, layer.length)";
  }
  for (const ChunkSchedule& own : choose_chunks(problem, exprs, *request.device, schedule))
    emitter.add(
        {own.to_string(),
         problem.layer.sequences * Dim(problem.layer.heads() * (problem.value_size() / own.slice)),
         kChunkThreads, chunk_bytes(problem, own.slice), own.conditions},
        fmt::format("ChunkStates<Shape, Layer, {}>", own.slice), more);
  return emitter.finish();
}

}  // namespace sinter::codegen

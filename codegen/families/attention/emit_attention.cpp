// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/emit_attention.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/families/attention/attention_maps.h"
#include "codegen/families/attention/attention_problem_text.h"
#include "codegen/families/attention/prologue/attention_prologue.h"
#include "codegen/families/attention/schedule/attention_fit.h"
#include "codegen/families/attention/schedule/attention_rules.h"

namespace sinter::codegen {
namespace {

std::string score_name(const std::string& kernel) { return kernel + "_Score"; }

std::string shape_text(const AttentionProgram& p, const AttentionSchedule& s,
                       const std::string& score) {
  const auto part = [](const char* name, auto value) {
    return fmt::format("/*{}*/ {}", name, value);
  };
  const std::string indent(25, ' ');
  std::string text =
      fmt::format("  typedef AttentionShape<{}, {}, {}, {},\n", storage_name(p.dtype),
                  p.mask ? storage_name(p.mask->dtype) : "NoMask",
                  part("head", padded_head(p.head)), part("values", padded_head(p.value_head)));
  text += indent + fmt::format("{}, {}, {},\n", part("row warps", s.row_warps),
                               part("warp rows", s.warp_rows), part("groups", s.key_groups));
  text += indent + fmt::format("{}, {}, {},\n", part("keys", s.keys), part("vector", s.vector),
                               part("pairs", s.pairs));
  text += indent + fmt::format("{}, {}, {},\n", part("mask rows", p.mask && p.mask->row != Dim(0)),
                               part("mask keys", p.mask && p.mask->column != Dim(0)),
                               part("mask pairs", mask_in_pairs(p)));
  text += indent + fmt::format("{}, {}", part("causal", p.causal != 0), part("guard", p.guard));
  // Defaulted template arguments are written only if a later one is not the default.
  const bool is_packed = p.bounds.has_value(), is_padded = p.head % 8 != 0 || p.value_head % 8 != 0,
             names_score = p.scores || is_padded,
             names_taken = s.least_rows > 0 || s.most_rows > 0 || names_score,
             names_blocks = p.tables || names_taken, names_cache = p.key_scales || names_blocks,
             names_result = p.rounding || names_cache;
  if (p.has_row_limits())
    text += fmt::format(",\n{}{}", indent, part("limits", storage_name(p.limits->dtype)));
  else if (is_packed || names_result)
    text += fmt::format(",\n{}NoLimits", indent);
  if (is_packed || names_result) text += fmt::format(", {}", part("packed", is_packed));
  if (names_result) text += fmt::format(", {}", part("result", storage_name(p.y.dtype)));
  if (names_cache) text += fmt::format(", {}", part("cache", storage_name(p.k.dtype)));
  if (names_blocks)
    text += fmt::format(",\n{}{}, {}, {}", indent, part("block", p.block), part("group", p.group),
                        part("window", p.window));
  if (names_taken)
    text +=
        fmt::format(", {}, {}", part("least rows", s.least_rows), part("most rows", s.most_rows));
  if (names_score) text += fmt::format(", {}", p.scores ? score : "NoScore");
  if (is_padded)
    text += fmt::format(",\n{}{}, {}", indent, part("head columns", p.head),
                        part("value columns", p.value_head));
  if (p.eight_bit)
    text += fmt::format("> WideShape;\n  typedef EightBitShape<WideShape, {}, {}> Shape;\n",
                        storage_name(p.q.dtype), part("promoted", p.promoted));
  else
    text += "> Shape;\n";
  const std::string bytes =
      s.by_warpgroups()
          ? fmt::format("AttentionPipeline<Shape, {}, {}>::kSharedBytes", s.stages, s.queries)
      : p.is_float32() ? "Float32Rows<Shape>::kSharedBytes"
                       : fmt::format("Shape::shared_bytes({}, {}){}", s.ahead, s.splits,
                                     p.front ? " + Shape::kPrologueBytes" : "");
  return text + fmt::format("  static_assert({} == {}, \"what the launch reserves\");\n", bytes,
                            attention_shared_bytes(p, s));
}

/// The wgmma instruction for PV matmuls of `columns` value columns, if warpgroup.cuh has none. For
/// 8 bits both operands are contiguous along the keys.
std::string wgmma_text(DType type, std::int64_t columns) {
  const bool eight_bit = size_of(type) == 1;
  if (columns == 64 || columns == 96 || columns == 128) return "";
  std::vector<std::string> registers, tiles;
  for (std::int64_t i = 0; i < columns / 2; ++i) {
    registers.push_back(fmt::format("%{}", i));
    tiles.push_back(fmt::format("\"+f\"(d[{}][{}])", i / 4, i % 4));
  }
  const std::string name = storage_name(type);
  const std::int64_t first = columns / 2;
  if (eight_bit)
    return fmt::format(
        "\n#if defined(SINTER_WARPGROUPS) && defined(__CUDACC__)\n"
        "SINTER_DEVICE void wgmma_instruction({0}, {0}, float (&d)[{1}][4], const u32 (&a)[4], "
        "u64 b, bool add) {{\n"
        "  asm volatile(\n"
        "      \"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{2}, 0;\\n\"\n"
        "      \"wgmma.mma_async.sync.aligned.m64n{3}k32.f32.e4m3.e4m3 {{{4}}}, {{%{5}, %{6}, "
        "%{7}, "
        "%{8}}}, %{9}, p, 1, 1;\\n}}\"\n"
        "      : {10}\n"
        "      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
        "\"r\"(static_cast<int>(add)));\n}}\n#endif\n",
        name, columns / 8, first + 5, columns, fmt::join(registers, ", "), first, first + 1,
        first + 2, first + 3, first + 4, fmt::join(tiles, ", "));
  return fmt::format(
      "\n#if defined(SINTER_WARPGROUPS) && defined(__CUDACC__)\n"
      "template <bool kRowsAreK>\nSINTER_DEVICE void wgmma_instruction({0}, float (&d)[{1}][4], "
      "const u32 (&a)[4], u64 b, "
      "bool add) {{\n"
      "  asm volatile(\n"
      "      \"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{2}, 0;\\n\"\n"
      "      \"wgmma.mma_async.sync.aligned.m64n{3}k16.f32.{0}.{0} {{{4}}}, {{%{5}, %{6}, %{7}, "
      "%{8}}}, %{9}, p, 1, 1, "
      "%{10};\\n}}\"\n"
      "      : {11}\n"
      "      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
      "\"r\"(static_cast<int>(add)),\n"
      "        \"n\"(kRowsAreK ? 1 : 0));\n}}\n#endif\n",
      name, columns / 8, first + 5, columns, fmt::join(registers, ", "), first, first + 1,
      first + 2, first + 3, first + 4, first + 6, fmt::join(tiles, ", "));
}

/// The translation unit: the problem of an item, then a function for each schedule. Variants that
/// differ only in their grids share a function.
class AttentionEmitter {
 public:
  AttentionEmitter(const AttentionProgram& program, const std::string& name, ExprTable& exprs,
                   bool programmatic_launch, const KernelRequest& facts)
      : p_(program),
        name_(name),
        exprs_(exprs),
        programmatic_launch_(programmatic_launch),
        facts_(facts),
        args_(program, exprs, facts.buffer_types) {
    facts_.programmatic_launch = programmatic_launch;
  }

  EmittedKernel emit(const std::vector<std::string>& origins, const std::string& forced,
                     const RequestedSchedules& requested) {
    EmittedKernel kernel;
    std::vector<AttentionSchedule> schedules = choose_attention(p_, exprs_, *facts_.device, forced);
    if (facts_.task) keep_tasks(schedules);
    std::vector<std::string> chosen_by(schedules.size(), kChosenByUser);
    if (forced.empty())
      chosen_by = apply_requested(
          requested, schedules, kernel.choices,
          [&](const AttentionSchedule& rule) {
            return attention_candidates(p_, exprs_, *facts_.device, rule, requested.clusters);
          },
          [](const AttentionSchedule& s) { return s.splits == 1 && !s.by_warpgroups(); });
    // All parameters must be known before the first signature is written.
    const bool has_maps = std::ranges::any_of(schedules, [&](const AttentionSchedule& schedule) {
      return copies_by_engine(p_, schedule, exprs_);
    });
    const auto score = p_.scores
                           ? std::optional(score_text(p_, score_name(name_), args_, facts_, exprs_))
                           : std::nullopt;
    const std::string problem = ProblemText(p_, args_, score ? &*score : nullptr).write(has_maps);
    const std::string front = p_.front ? write_prologue() : "";
    bool by_warpgroups = false;
    std::vector<ScheduleTexts> texts;
    for (const AttentionSchedule& schedule : schedules) {
      const Dim tiles = attention_tiles(p_, schedule, exprs_.ranges());
      ScheduleTexts& own = texts.emplace_back();
      own.items = tiles * ir::element_count(p_.batch);
      if (p_.bounds) own.tiles = args_.dim(tiles);
      if (schedule.by_warpgroups()) own.count = args_.dim(own.items);
      by_warpgroups = by_warpgroups || schedule.by_warpgroups();
    }
    kernel.source = kernel_heading(name_, origins);
    if (by_warpgroups) kernel.source += fmt::format("{}\n", kExactTarget);
    kernel.source +=
        fmt::format("#include \"attention{}.cuh\"\n", p_.is_float32() ? "_float32" : "");
    if (by_warpgroups)
      kernel.source += fmt::format("#include \"{}.cuh\"\n{}",
                                   p_.eight_bit ? "attention_eight_bit" : "attention_warpgroups",
                                   wgmma_text(p_.eight_bit ? p_.v.dtype : p_.dtype, p_.value_head));
    if (p_.front || score) kernel.source += "#include \"vector.cuh\"\n";
    if (score) kernel.source += score->declaration;
    std::vector<std::string> parameters = args_.texts();
    if (p_.bounds) parameters.insert(parameters.begin(), {"i64 tiles", "const PackedTile* found"});
    parameters.insert(parameters.begin(), "u32 item");
    kernel.source += fmt::format(
        "\ntemplate <class Shape, bool kProgrammatic = false>\nSINTER_DEVICE "
        "AttentionProblem<Shape>\n{} "
        "{{\n{}}}\n",
        signature_text(name_ + "_problem", parameters), problem);
    if (p_.front) {
      for (const OperandFunction& function : prologue_functions_) kernel.source += function.text;
      const std::string type = storage_name(p_.dtype);
      for (const char* made : {"queries", "key", "value"})
        parameters.push_back(fmt::format("{}* {}", type, made));
      parameters.push_back("const Wait& wait");
      kernel.source +=
          fmt::format("\ntemplate <class Shape, class Wait>\nSINTER_DEVICE i32\n{} {{\n{}}}\n",
                      signature_text(name_ + "_front", parameters), front);
    }
    std::vector<std::string> functions;  // with the text of their conditions
    std::map<std::string, std::size_t> known;
    std::vector<std::string> notes;
    std::vector<std::size_t> first;  // index of the first schedule of each function
    for (std::size_t s = 0; s < schedules.size(); ++s) {
      AttentionSchedule code = schedules[s];
      code.blocks = code.at_once = 0;
      const auto [at, is_new] = known.try_emplace(code.to_string(), functions.size());
      if (is_new) {
        functions.push_back(s == 0 ? name_ : fmt::format("{}_v{}", name_, functions.size()));
        notes.emplace_back();
        first.push_back(s);
      }
      kernel.step.variants.push_back(variant(schedules[s], texts[s], functions[at->second]));
      kernel.step.variants.back()->chosen_by = chosen_by[s];
      notes[at->second] += note(*kernel.step.variants.back());
    }
    for (std::size_t f = 0; f < functions.size(); ++f)
      kernel.source +=
          "\n" + notes[f] + function(functions[f], schedules[first[f]], texts[first[f]]);
    kernel.step.args = args_.args();
    return kernel;
  }

 private:
  /// Texts of a function, besides its schedule.
  struct ScheduleTexts {
    Dim items;
    std::string count;  // the kernel's text of it
    std::string tiles;  // tiles of a head, likewise
    std::vector<MapParameter> maps = {};
  };

  /// Keeps what a task may be.
  void keep_tasks(std::vector<AttentionSchedule>& schedules) const {
    std::erase_if(schedules, [&](const AttentionSchedule& s) {
      return s.splits > 1 || s.turns > 0 || s.by_warpgroups() ||
             s.threads() != facts_.task->threads ||
             static_cast<int>(reserved_shared_bytes(p_, s, *facts_.device)) >
                 facts_.task->most_shared_bytes;
    });
    if (schedules.empty() || !schedules.back().conditions.empty())
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("attention '{}' has no schedule of {} threads for all sizes", name_,
                              facts_.task->threads));
  }

  /// Also creates the TMA descriptors.
  std::unique_ptr<KernelVariantT> variant(const AttentionSchedule& schedule, ScheduleTexts& texts,
                                          const std::string& function) {
    auto result = std::make_unique<KernelVariantT>();
    const Dim blocks =
        schedule.blocks > 0 ? ir::min(texts.items, schedule.blocks, exprs_.ranges()) : texts.items;
    result->conditions = schedule.conditions;
    result->function = function;
    result->grid = {exprs_.intern(blocks * Dim(schedule.splits)), exprs_.intern(1),
                    exprs_.intern(1)};
    result->block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
    result->shared_bytes = reserved_shared_bytes(p_, schedule, *facts_.device);
    result->schedule = schedule.to_string();
    result->cluster = static_cast<std::uint32_t>(schedule.splits);
    result->programmatic_launch = programmatic_launch_;
    texts.maps = maps_of(p_, schedule, exprs_);
    for (const MapParameter& map : texts.maps)
      result->maps.push_back(std::make_unique<plan::fb::TensorMapT>(map.map));
    return result;
  }

  std::string note(const KernelVariantT& variant) const {
    std::string text = fmt::format("// schedule: {}\n", variant.schedule);
    if (!variant.conditions.empty())
      text += fmt::format("// where {}\n", conditions_text(variant.conditions, exprs_));
    return text;
  }

  /// `item`: its index, followed by ", <number of tiles>" for packed sequences.
  std::string problem_of(const std::string& item, bool programmatic_launch = false) const {
    return fmt::format("{}_problem<Shape{}>({}, {})", name_, programmatic_launch ? ", true" : "",
                       item, fmt::join(args_.names(), ", "));
  }

  std::string write_prologue() {
    const AttentionPrologue& front = *p_.front;
    const auto add = [&](const PrologueOperand& made, std::int64_t width, const char* what) {
      prologue_functions_.push_back(
          prologue_function(p_, made, width, fmt::format("{}_{}", name_, what), facts_, exprs_));
    };
    add(front.q, p_.head, "queries");
    add(front.k, p_.head, "key");
    add(front.v, p_.value_head, "value");
    return ProblemText(p_, args_).write_prologue(
        prologue_functions_, facts_.given.contains(p_.buffers[front.slot_buffer]));
  }

  /// The same with a prologue for queries and the new row.
  std::string attend_with_prologue(const AttentionSchedule& schedule, const std::string& item) {
    std::string text = fmt::format("  const u32 item = {};\n", item);
    if (programmatic_launch_) {
      text += "  launch_dependents();\n";
      ProblemText calls(p_, args_);
      for (const OperandFunction& function : prologue_functions_)
        if (!function.fetch.empty())
          text += fmt::format("  {};\n", calls.call(function, "nullptr", ""));
      if (p_.cached)
        text += fmt::format("  fetch_keys<Shape, {}, {}>({});\n", schedule.splits,
                            p_.front->still ? 1 : 0, problem_of("item", true));
    }
    text += "  const auto wait = [&] {\n";
    if (programmatic_launch_) {
      text += "    grid_dependency_wait();\n";
      for (const std::string& name : args_.inputs())
        text += fmt::format("    {0} = after_grid_wait({0});\n", name);
    }
    text += fmt::format("    return {};\n  }};\n", problem_of("item"));
    const std::string type = storage_name(p_.dtype);
    text += fmt::format(
        "  const auto make = [&]({0}* queries, {0}* key, {0}* value, const auto& wait) {{\n"
        "    return {1}_front<Shape>(item, {2}, queries, key, value, wait);\n  }};\n",
        type, name_, fmt::join(args_.names(), ", "));
    return text + fmt::format("  attend<Shape, {}, 1>({}, prologue_of<{}>(wait, make));\n}}\n",
                              schedule.splits, problem_of("item", programmatic_launch_),
                              programmatic_launch_ && p_.front->still);
  }

  /// Programmatic launch: what the kernel does at its start. The kernel of short sequences waits
  /// first; the one of long sequences, which reads none of its results, then runs beside it
  /// (end()).
  std::string begin(const AttentionSchedule& schedule, const std::string& item) const {
    if (!programmatic_launch_) return "";
    std::string go_on = "  launch_dependents();\n";
    if (p_.taken == PagedSequences::kLong) return go_on;
    const bool waits_first = p_.taken == PagedSequences::kShort;
    std::string text = waits_first ? "" : go_on;
    constexpr int kMostFetchingRows = 32;  // above, several blocks read the same keys
    if (p_.cached && !p_.has_row_limits() && schedule.rows() <= kMostFetchingRows)
      text +=
          fmt::format("  fetch_keys<Shape, {}>({});\n", schedule.splits, problem_of(item, true));
    text += "  grid_dependency_wait();\n";
    for (const std::string& name : args_.inputs())
      text += fmt::format("  {0} = after_grid_wait({0});\n", name);
    return text + (waits_first ? go_on : "");
  }

  /// The last statement. The next kernel waits only for the kernel of long sequences, which
  /// therefore must not end before that of short sequences.
  std::string end() const {
    return programmatic_launch_ && p_.taken == PagedSequences::kLong ? "  grid_dependency_wait();\n"
                                                                     : "";
  }

  std::string function(const std::string& name, const AttentionSchedule& schedule,
                       const ScheduleTexts& texts) {
    const int at_once = schedule.blocks_at_once();
    std::vector<std::string> parameters = args_.texts();
    for (const MapParameter& map : texts.maps) parameters.push_back(map.declaration());
    if (facts_.task) parameters.insert(parameters.end(), {"u32 task", "TaskWait ready"});
    std::string text =
        (facts_.task
             ? "SINTER_TASK\n"
             : fmt::format("extern \"C\" __global__ void __launch_bounds__({}{})\n",
                           schedule.threads(), at_once > 0 ? fmt::format(", {}", at_once) : "")) +
        fmt::format("{} {{\n{}", signature_text(name, parameters),
                    shape_text(p_, schedule, score_name(name_)));
    if (facts_.task) text += "  ready();\n";
    const std::string& block = facts_.block;
    std::string item = schedule.turns > 0
                           ? fmt::format("balanced_item<{}>({}, gridDim.x)", schedule.turns, block)
                       : schedule.splits > 1 ? fmt::format("{} / {}", block, schedule.splits)
                                             : block;
    const std::string of_tiles = p_.bounds ? ", " + texts.tiles : "";
    if (p_.bounds) item += of_tiles + ", nullptr";
    if (p_.front) return text + attend_with_prologue(schedule, item);
    text += begin(schedule, item);
    if (p_.eight_bit)
      return fmt::format(
          "#ifdef SINTER_WARPGROUPS\n{}  attend_in_eight_bits<Shape, {}, {}>(u32({}), [&](u32 "
          "item) "
          "{{\n    return {};\n  }});\n}}\n#endif\n",
          text, schedule.stages, schedule.queries, texts.count, problem_of("item"));
    if (schedule.by_warpgroups())
      return fmt::format(
          "#ifdef SINTER_WARPGROUPS\n{}  attend_by_warpgroups<Shape, {}, {}>(u32({}), [&](u32 "
          "item{}) "
          "{{\n"
          "    return {};\n  }}, {});\n{}}}\n#endif\n",
          text, schedule.stages, schedule.queries, texts.count,
          p_.bounds ? ", const PackedTile* found = nullptr" : "",
          problem_of(p_.bounds ? "item" + of_tiles + ", found" : "item"),
          texts.maps.empty() ? "NoMaps()" : maps_text(p_), end());
    std::string by = p_.is_float32() ? "attend_float32" : "attend";
    if (schedule.ahead > 1)
      by = fmt::format("attend<Shape, {}, {}>", schedule.splits, schedule.ahead);
    else if (schedule.splits > 1)
      by = fmt::format("attend<Shape, {}>", schedule.splits);
    return text + fmt::format("  {}({});\n{}}}\n", by, problem_of(item), end());
  }

  const AttentionProgram& p_;
  const std::string& name_;
  ExprTable& exprs_;
  bool programmatic_launch_;
  KernelRequest facts_;
  AttentionParameters args_;
  std::vector<OperandFunction> prologue_functions_;
};

}  // namespace

EmittedKernel emit_attention(const AttentionProgram& program, const std::string& name,
                             const std::vector<std::string>& origins, ExprTable& exprs,
                             bool programmatic_launch, const std::string& schedule,
                             const RequestedSchedules& requested, const KernelRequest& facts) {
  if (std::string reason; !can_schedule_attention(program, reason))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("attention '{}' has no CUDA kernel: {}", name, reason));
  return AttentionEmitter(program, name, exprs, programmatic_launch, facts)
      .emit(origins, schedule, requested);
}

}  // namespace sinter::codegen

#include "codegen/families/attention/emit_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/assemble.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/families/attention/attention_prologue.h"
#include "codegen/families/attention/attention_schedule.h"

namespace sinter::codegen {
namespace {

constexpr int kBoxColumns = 64;              // of a copy by the copy engine: a row of 128 bytes
constexpr std::size_t kMostMappedBatch = 3;  // a tensor map has five dimensions

/// Whether the copy engine fetches the operands of `schedule`. What lies behind the last key is
/// zero then, and it knows a tensor's end, but no limit or size that a run finds, nor where a
/// packed sequence ends: weights of zero would meet another's values, which may be infinite. It
/// takes rows of whole lines of 128 bytes; those of 80 or 144 bytes take it longer than warps.
bool copies_by_engine(const AttentionProgram& program, const AttentionSchedule& schedule,
                      const ExprTable& exprs) {
  std::vector<Dim> sizes = program.batch;
  sizes.insert(sizes.end(), {program.rows, program.keys});
  return schedule.by_warpgroups() && program.head % kBoxColumns == 0 &&
         program.value_head % kBoxColumns == 0 && program.batch.size() <= kMostMappedBatch &&
         !program.limits && !program.bounds && !ir::is_from_data(sizes, exprs.ranges());
}

/// The kernel's parameters: its buffers, then the sizes that are not constant.
class AttentionParameters {
 public:
  AttentionParameters(const AttentionProgram& program, ExprTable& exprs, std::vector<DType> types)
      : exprs_(exprs), result_(program.y.buffer) {
    types.resize(program.buffers.size());
    for (const AttentionOperand* operand :
         {&program.q, &program.k, &program.v, &program.y, program.mask ? &*program.mask : nullptr,
          program.limits ? &*program.limits : nullptr, program.bounds ? &*program.bounds : nullptr})
      if (operand != nullptr && operand->buffer != kPrologueValue)
        types[operand->buffer] = operand->dtype;
    for (std::uint32_t b = 0; b < types.size(); ++b) {
      const bool written = program.writes(b), read = b != result_;
      names_.push_back(buffer(b));
      texts_.push_back(fmt::format("{}{}*{} {}", written ? "" : "const ", storage_name(types[b]),
                                   read && written ? "" : " __restrict__", names_.back()));
      args_.emplace_back(ArgKind::Buffer, program.buffers[b]);
    }
  }

  std::string buffer(std::uint32_t b) const { return b == result_ ? "y" : fmt::format("x{}", b); }

  /// A literal, or a parameter that is added on first use. All sizes are 64 bits wide: a block
  /// computes a few addresses once.
  std::string dim(const Dim& dim) { return size(exprs_.intern(dim)); }
  std::string size(std::uint32_t expression) {
    const Dim dim = exprs_.dim(expression);
    if (dim.is_constant()) return int_literal(dim.value());
    const auto known = sizes_.find(expression);
    if (known != sizes_.end()) return known->second;
    const std::string name = fmt::format("n{}", sizes_.size());
    sizes_.emplace(expression, name);
    names_.push_back(name);
    texts_.push_back(fmt::format("i64 {} /* {} */", name, comment_text(dim.to_string())));
    args_.emplace_back(ArgKind::Int64, expression);
    return name;
  }

  /// "const f16* __restrict__ x0", and "x0": one for each parameter.
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<KernelArg>& args() const { return args_; }
  /// The names of those that are read.
  std::vector<std::string> inputs() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (texts_[i].starts_with("const ")) names.push_back(names_[i]);
    return names;
  }

 private:
  ExprTable& exprs_;
  std::uint32_t result_;
  std::vector<std::string> texts_;
  std::vector<KernelArg> args_;
  std::map<std::uint32_t, std::string> sizes_;
  std::vector<std::string> names_;
};

std::string float_literal(double value) {
  if (std::isinf(value)) return value < 0 ? "-infinity()" : "infinity()";
  const std::string digits = fmt::format("{}", static_cast<float>(value));
  return digits + (digits.find_first_of(".e") == std::string::npos ? ".0f" : "f");
}

/// A finite score stays finite in base 2.
double in_base_2(double score) {
  const double most = std::numeric_limits<float>::max();
  return std::isinf(score) ? score : std::clamp(score / std::log(2.0), -most, most);
}

/// What all variants share: which rows of which head an item is, and where the operands lie.
class ProblemText {
 public:
  ProblemText(const AttentionProgram& program, AttentionParameters& args)
      : p_(program), args_(args) {}

  /// `has_maps`: some schedule has the copy engine fetch the operands.
  std::string write(bool has_maps) {
    line("AttentionProblem<Shape> p;");
    if (p_.bounds) {
      place_packed();
    } else {
      line(fmt::format("p.rows = i32({});", args_.dim(p_.rows)));
      line(fmt::format("p.keys = i32({});", args_.dim(p_.keys)));
      place();
    }
    for (std::size_t axis = 0; has_maps && axis < p_.batch.size(); ++axis)
      line(fmt::format("p.batch[{}] = i32(b{});", axis, axis));
    if (p_.front)
      line("p.q = nullptr;");  // made by the block
    else
      operand("q", p_.q);
    operand("k", p_.k);
    operand("v", p_.v);
    operand("y", p_.y);
    line(p_.mask ? fmt::format("p.mask = {};", address(*p_.mask)) : "p.mask = nullptr;");
    line(fmt::format("p.mask_row = {};", p_.mask ? args_.dim(p_.mask->row) : "0"));
    line(fmt::format("p.mask_key = {};", p_.mask ? args_.dim(p_.mask->column) : "0"));
    line(p_.causal == 2 ? "p.diagonal = p.keys - p.rows;" : "p.diagonal = 0;");
    if (p_.has_row_limits()) {
      line(fmt::format("p.limits = {};", address(*p_.limits)));
      line(fmt::format("p.limit_row = {};", args_.dim(p_.limits->row)));
    } else if (p_.limits) {
      line(fmt::format("const auto* limit = {};", address(*p_.limits)));
      line("p.keys = keys_before(kProgrammatic ? old_value(limit) : *limit, p.keys);");
    }
    line(fmt::format("p.scale = {};", float_literal(p_.scale)));
    line(fmt::format("p.fill = {};", float_literal(in_base_2(p_.fill))));
    line("return p;");
    return std::move(text_);
  }

  /// How an item's queries and its new row are made by a block's threads, each from the next whole
  /// warp on; `functions`: of queries, key and value; `is_given`: no step writes the new row's
  /// number, which is the result.
  std::string write_prologue(const std::vector<PrologueFunction>& functions, bool is_given) {
    line("AttentionProblem<Shape> p;");
    line(fmt::format("p.rows = i32({});", args_.dim(p_.rows)));
    place();
    const AttentionPrologue& front = *p_.front;
    constexpr std::int64_t kWarp = 32;
    std::int64_t first = 0, end = 0;
    std::string parts;
    const auto part = [&](const char* to, const PrologueOperand& made, std::int64_t rows,
                          std::int64_t width, const PrologueFunction& function) {
      first = (end + kWarp - 1) / kWarp * kWarp;
      const std::int64_t across = width / function.vector;
      end = first + rows * across;
      const std::string at = first == 0 ? "at" : fmt::format("(at - {})", first);
      std::string element = place_of(made.offset, made.batch);
      if (made.row != Dim(0)) element += fmt::format(" + row * {}", args_.dim(made.row));
      parts += fmt::format(
          "    if ({} < {}) {{\n      const u32 row = {} / {}, column = {} % {} * {};\n"
          "      const i64 element = {};  // the row's first\n      {};\n    }}\n",
          at, rows * across, at, across, at, across, function.vector, element,
          call(function, fmt::format("{} + row * {} - element", to, width),
               fmt::format("{}((element + column) / {})", function.number, function.vector)));
    };
    part("queries", front.q, p_.rows.value(), p_.head, functions[0]);
    part("key", front.k, 1, p_.head, functions[1]);
    part("value", front.v, 1, p_.value_head, functions[2]);
    const std::string place_at =
        fmt::format("{} + {}", args_.buffer(front.place_buffer), args_.dim(front.place_offset));
    if (is_given) line(fmt::format("const i64 place = *({});", place_at));
    line("bool waits = true;");
    line("const auto wait_once = [&] {");
    line("  if (waits) wait();");
    line("  waits = false;");
    line("};");
    line(
        fmt::format("for (u32 at = threadIdx.x; at < {}; "
                    "at += Shape::kThreads * Shape::kKeyGroups) {{",
                    end));
    text_ += parts;
    line("}");
    line("wait_once();");
    if (!is_given) line(fmt::format("const i64 place = *after_grid_wait({});", place_at));
    const std::string keys = args_.dim(p_.keys);
    line(fmt::format("return has_index(place, {0}) ? i32(wrap_index(place, {0})) : -1;", keys));
    return std::move(text_);
  }

  /// "name(x0, x1, TO, n0, NUMBER)".
  std::string call(const PrologueFunction& function, const std::string& to,
                   const std::string& number) {
    std::vector<std::string> arguments;
    for (const std::uint32_t buffer : function.buffers)
      arguments.push_back(buffer == kPrologueValue ? to : args_.buffer(buffer));
    for (const std::uint32_t size : function.sizes) arguments.push_back(args_.size(size));
    if (!number.empty()) arguments.insert(arguments.end(), {number, "wait_once"});
    return fmt::format("{}({})", number.empty() ? function.fetch : function.name,
                       fmt::join(arguments, ", "));
  }

 private:
  void line(const std::string& text) { text_ += "  " + text + "\n"; }

  /// Rows that see many keys go first where they differ.
  void place() {
    line("const u32 tiles = (p.rows + Shape::kRows - 1) / Shape::kRows;");
    const char* const head = p_.batch.size() > 1 ? "u32 head" : "const u32 head";
    if (p_.causal != 0) {
      line(fmt::format("const auto place = causal_item<Shape>(item, tiles, u32({}), p.keys);",
                       args_.dim(ir::element_count(p_.batch))));
      line("p.first_row = place.tile * Shape::kRows;");
      if (!p_.batch.empty()) line(fmt::format("{} = place.head;", head));
    } else {
      line("p.first_row = (item % tiles) * Shape::kRows;");
      if (!p_.batch.empty()) line(fmt::format("{} = item / tiles;", head));
    }
    place_head();
  }

  /// Heads of one tile behind each other. Which sequence has the tile is looked up.
  void place_packed() {
    const std::string heads = args_.dim(ir::element_count(p_.batch)), bounds = address(*p_.bounds),
                      sequences = args_.dim(p_.sequences), rows = args_.dim(p_.rows);
    line(fmt::format("const i32 number = item / u32({});", heads));
    line(fmt::format("const auto tile = packed_tile<Shape::kRows>({}, i32({}), i32({}), number);",
                     bounds, sequences, rows));
    line("p.rows = tile.rows;");
    line("p.keys = tile.rows;");
    line("p.first_row = tile.first_row;");
    line(fmt::format("p.spare = spare_rows({}, i32({}), i32({}), tile.begin, number, i32(tiles));",
                     bounds, sequences, rows));
    if (!p_.batch.empty())
      line(fmt::format("{} head = item % u32({});", p_.batch.size() > 1 ? "u32" : "const u32",
                       heads));
    place_head();
  }

  void place_head() {
    for (std::size_t axis = p_.batch.size(); axis-- > 1;) {
      const std::string extent = args_.dim(p_.batch[axis]);
      line(fmt::format("const i64 b{} = head % u32({});", axis, extent));
      line(fmt::format("head /= u32({});", extent));
    }
    if (!p_.batch.empty()) line("const i64 b0 = head;");
  }

  std::string address(const AttentionOperand& operand) {
    const std::string place = place_of(operand.offset, operand.batch);
    return args_.buffer(operand.buffer) + (place == "0" ? "" : " + " + place);
  }

  /// Of an item's first element.
  std::string place_of(const Dim& offset, const std::vector<Dim>& batch) {
    std::string text = offset == Dim(0) ? "" : args_.dim(offset);
    for (std::size_t axis = 0; axis < p_.batch.size(); ++axis) {
      if (batch[axis] == Dim(0)) continue;
      text += fmt::format("{}b{}", text.empty() ? "" : " + ", axis);
      if (batch[axis] != Dim(1)) text += fmt::format(" * {}", args_.dim(batch[axis]));
    }
    return text.empty() ? "0" : text;
  }

  void operand(const char* name, const AttentionOperand& operand) {
    const std::string begin =
        p_.bounds ? fmt::format(" + i64{{tile.begin}} * {}", args_.dim(operand.row)) : "";
    line(fmt::format("p.{} = {}{};", name, address(operand), begin));
    line(fmt::format("p.{}_stride = {};", name, args_.dim(operand.row)));
  }

  const AttentionProgram& p_;
  AttentionParameters& args_;
  std::string text_;
};

/// What the copy engine is told of an operand of which tiles of `rows` rows are copied.
MapParameter map_of(const char* name, const AttentionProgram& program,
                    const AttentionOperand& operand, std::int64_t width, const Dim& rows,
                    int tile_rows, ExprTable& exprs) {
  MapParameter result{name, {}};
  result.map.buffer = program.buffers[operand.buffer];
  result.map.offset = exprs.intern(operand.offset);
  const auto add = [&](const Dim& extent, const Dim& stride, int box) {
    result.map.extents.push_back(exprs.intern(extent));
    result.map.strides.push_back(exprs.intern(stride));
    result.map.box.push_back(static_cast<std::uint32_t>(box));
  };
  result.map.extents.push_back(exprs.intern(Dim(width)));
  result.map.box.push_back(kBoxColumns);
  // A row that all share has any stride, and so has what all of a batch share.
  const Dim row = operand.row == Dim(0) ? Dim(width) : operand.row;
  add(rows, row, tile_rows);
  for (std::size_t axis = 0; axis < program.batch.size(); ++axis) {
    const bool shared = operand.batch[axis] == Dim(0);
    add(shared ? Dim(1) : program.batch[axis], shared ? row : operand.batch[axis], 1);
  }
  return result;
}

/// The dimensions of the batch that share the operand, as bits.
unsigned shared_dimensions(const AttentionOperand& operand) {
  unsigned bits = 0;
  for (std::size_t axis = 0; axis < operand.batch.size(); ++axis)
    if (operand.batch[axis] == Dim(0)) bits |= 1u << axis;
  return bits;
}

std::vector<MapParameter> maps_of(const AttentionProgram& program,
                                  const AttentionSchedule& schedule, ExprTable& exprs) {
  if (!copies_by_engine(program, schedule, exprs)) return {};
  return {
      map_of("map_q", program, program.q, program.head, program.rows, schedule.rows(), exprs),
      map_of("map_k", program, program.k, program.head, program.keys, schedule.keys, exprs),
      map_of("map_v", program, program.v, program.value_head, program.keys, schedule.keys, exprs)};
}

std::string shape_text(const AttentionProgram& p, const AttentionSchedule& s) {
  const auto part = [](const char* name, auto value) {
    return fmt::format("/*{}*/ {}", name, value);
  };
  const std::string indent(25, ' ');
  std::string text =
      fmt::format("  typedef AttentionShape<{}, {}, {}, {},\n", storage_name(p.dtype),
                  p.mask ? storage_name(p.mask->dtype) : "NoMask", part("head", p.head),
                  part("values", p.value_head));
  text += indent + fmt::format("{}, {}, {},\n", part("row warps", s.row_warps),
                               part("row tiles", s.row_tiles), part("groups", s.key_groups));
  text += indent + fmt::format("{}, {}, {},\n", part("keys", s.keys), part("vector", s.vector),
                               part("pairs", s.pairs));
  text += indent + fmt::format("{}, {}, {},\n", part("mask rows", p.mask && p.mask->row != Dim(0)),
                               part("mask keys", p.mask && p.mask->column != Dim(0)),
                               part("mask pairs", mask_in_pairs(p)));
  text += indent + fmt::format("{}, {}", part("causal", p.causal != 0), part("guard", p.guard));
  if (p.has_row_limits())
    text += fmt::format(",\n{}{}", indent, part("limits", storage_name(p.limits->dtype)));
  if (p.bounds) text += fmt::format(",\n{}NoLimits, {}", indent, part("packed", true));
  text += "> Shape;\n";
  const std::string bytes =
      s.by_warpgroups()
          ? fmt::format("AttentionPipeline<Shape, {}, {}>::kSharedBytes", s.stages, s.queries)
          : fmt::format("Shape::shared_bytes({}, {}){}", s.ahead, s.splits,
                        p.front ? " + Shape::kPrologueBytes" : "");
  return text + fmt::format("  static_assert({} == {}, \"what the launch reserves\");\n", bytes,
                            attention_shared_bytes(p, s));
}

/// The instruction by which warpgroups multiply weights with values of `columns` elements a row,
/// where warpgroup.cuh has none.
std::string wgmma_text(DType type, std::int64_t columns) {
  if (columns == 64 || columns == 96 || columns == 128) return "";
  std::vector<std::string> registers, tiles;
  for (std::int64_t i = 0; i < columns / 2; ++i) {
    registers.push_back(fmt::format("%{}", i));
    tiles.push_back(fmt::format("\"+f\"(d[{}][{}])", i / 4, i % 4));
  }
  const std::string name = storage_name(type);
  const std::int64_t first = columns / 2;
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

/// The translation unit: what an item is, then a function for each schedule, which variants that
/// differ in their grids alone share.
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
    std::vector<std::string> chosen_by(schedules.size(), kChosenByUser);
    if (forced.empty())
      chosen_by = apply_requested(
          requested, schedules, kernel.choices,
          [&](const AttentionSchedule& rule) {
            return attention_candidates(p_, exprs_, *facts_.device, rule, requested.clusters);
          },
          [](const AttentionSchedule& s) { return s.splits == 1 && !s.by_warpgroups(); });
    // All parameters are known before the first signature is written.
    const bool has_maps = std::ranges::any_of(schedules, [&](const AttentionSchedule& schedule) {
      return copies_by_engine(p_, schedule, exprs_);
    });
    const std::string problem = ProblemText(p_, args_).write(has_maps);
    const std::string front = p_.front ? write_prologue() : "";
    bool by_warpgroups = false;
    for (const AttentionSchedule& schedule : schedules) {
      const Dim tiles = attention_tiles(p_, schedule.rows(), exprs_.ranges());
      items_.push_back(tiles * ir::element_count(p_.batch));
      tiles_.push_back(p_.bounds ? args_.dim(tiles) : "");
      counts_.push_back(schedule.by_warpgroups() ? args_.dim(items_.back()) : "");
      by_warpgroups = by_warpgroups || schedule.by_warpgroups();
    }
    kernel.source = kernel_heading(name_, origins);
    if (by_warpgroups) kernel.source += fmt::format("{}\n", kExactTarget);
    kernel.source += "#include \"attention.cuh\"\n";
    if (by_warpgroups)
      kernel.source +=
          "#include \"attention_warpgroups.cuh\"\n" + wgmma_text(p_.dtype, p_.value_head);
    if (p_.front) kernel.source += "#include \"vector.cuh\"\n";
    std::vector<std::string> parameters = args_.texts();
    if (p_.bounds) parameters.insert(parameters.begin(), "i64 tiles");
    parameters.insert(parameters.begin(), "u32 item");
    kernel.source += fmt::format(
        "\ntemplate <class Shape, bool kProgrammatic = false>\nSINTER_DEVICE "
        "AttentionProblem<Shape>\n{} "
        "{{\n{}}}\n",
        signature_text(name_ + "_problem", parameters), problem);
    if (p_.front) {
      for (const PrologueFunction& function : prologue_functions_) kernel.source += function.text;
      const std::string type = storage_name(p_.dtype);
      for (const char* made : {"queries", "key", "value"})
        parameters.push_back(fmt::format("{}* {}", type, made));
      parameters.push_back("const Wait& wait");
      kernel.source +=
          fmt::format("\ntemplate <class Shape, class Wait>\nSINTER_DEVICE i32\n{} {{\n{}}}\n",
                      signature_text(name_ + "_front", parameters), front);
    }
    std::vector<std::string> functions;  // each with the text that says when it runs
    std::map<std::string, std::size_t> known;
    std::vector<std::string> notes;
    std::vector<std::size_t> first;  // schedule of each function
    for (std::size_t s = 0; s < schedules.size(); ++s) {
      AttentionSchedule code = schedules[s];
      code.blocks = 0;
      const auto [at, is_new] = known.try_emplace(code.to_string(), functions.size());
      if (is_new) {
        functions.push_back(s == 0 ? name_ : fmt::format("{}_v{}", name_, functions.size()));
        notes.emplace_back();
        first.push_back(s);
      }
      kernel.step.variants.push_back(variant(schedules[s], items_[s], functions[at->second]));
      kernel.step.variants.back()->chosen_by = chosen_by[s];
      notes[at->second] += note(*kernel.step.variants.back());
    }
    for (std::size_t f = 0; f < functions.size(); ++f)
      kernel.source +=
          "\n" + notes[f] +
          function(functions[f], schedules[first[f]], counts_[first[f]], tiles_[first[f]]);
    kernel.step.args = args_.args();
    return kernel;
  }

 private:
  std::unique_ptr<KernelVariantT> variant(const AttentionSchedule& schedule, const Dim& items,
                                          const std::string& function) {
    auto result = std::make_unique<KernelVariantT>();
    const Dim blocks =
        schedule.blocks > 0 ? ir::min(items, schedule.blocks, exprs_.ranges()) : items;
    result->conditions = schedule.conditions;
    result->function = function;
    result->grid = {exprs_.intern(blocks * Dim(schedule.splits)), exprs_.intern(1),
                    exprs_.intern(1)};
    result->block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
    result->shared_bytes = attention_shared_bytes(p_, schedule);
    result->schedule = schedule.to_string();
    result->cluster = static_cast<std::uint32_t>(schedule.splits);
    result->programmatic_launch = programmatic_launch_;
    for (const MapParameter& map : maps_of(p_, schedule, exprs_))
      result->maps.push_back(std::make_unique<plan::fb::TensorMapT>(map.map));
    return result;
  }

  std::string note(const KernelVariantT& variant) const {
    std::string text = fmt::format("// schedule: {}\n", variant.schedule);
    if (!variant.conditions.empty())
      text += fmt::format("// where {}\n", conditions_text(variant.conditions, exprs_));
    return text;
  }

  /// `item`: its number, and behind a comma how many tiles there are if sequences are packed.
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
        prologue_functions_, facts_.given.contains(p_.buffers[front.place_buffer]));
  }

  /// The same where the block makes its queries and its new row.
  std::string attend_with_prologue(const AttentionSchedule& schedule, const std::string& item) {
    std::string text = fmt::format("  const u32 item = {};\n", item);
    if (programmatic_launch_) {
      text += "  launch_dependents();\n";
      ProblemText calls(p_, args_);
      for (const PrologueFunction& function : prologue_functions_)
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

  /// What a kernel does that runs before the one in front has ended.
  std::string begin(const AttentionSchedule& schedule, const std::string& item) const {
    if (!programmatic_launch_) return "";
    std::string text = "  launch_dependents();\n";
    constexpr int kFewRows = 32;  // more: several blocks read the same keys
    if (p_.cached && !p_.has_row_limits() && schedule.rows() <= kFewRows)
      text +=
          fmt::format("  fetch_keys<Shape, {}>({});\n", schedule.splits, problem_of(item, true));
    text += "  grid_dependency_wait();\n";
    for (const std::string& name : args_.inputs())
      text += fmt::format("  {0} = after_grid_wait({0});\n", name);
    return text;
  }

  std::string function(const std::string& name, const AttentionSchedule& schedule,
                       const std::string& items, const std::string& tiles) {
    const int at_once = schedule.blocks_at_once();
    std::vector<std::string> parameters = args_.texts();
    const std::vector<MapParameter> maps = maps_of(p_, schedule, exprs_);
    for (const MapParameter& map : maps) parameters.push_back(map.declaration());
    std::string text =
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}{})\n{} {{\n{}",
                    schedule.threads(), at_once > 0 ? fmt::format(", {}", at_once) : "",
                    signature_text(name, parameters), shape_text(p_, schedule));
    std::string item =
        schedule.splits > 1 ? fmt::format("blockIdx.x / {}", schedule.splits) : "blockIdx.x";
    const std::string of_tiles = p_.bounds ? ", " + tiles : "";
    item += of_tiles;
    if (p_.front) return text + attend_with_prologue(schedule, item);
    text += begin(schedule, item);
    if (schedule.by_warpgroups())
      return fmt::format(
          "#ifdef SINTER_WARPGROUPS\n{}  attend_by_warpgroups<Shape, {}, {}>(u32({}), [&](u32 "
          "item) "
          "{{\n"
          "    return {};\n  }}, {});\n}}\n#endif\n",
          text, schedule.stages, schedule.queries, items, problem_of("item" + of_tiles),
          maps.empty() ? "NoMaps()" : maps_text());
    std::string by = "attend";
    if (schedule.ahead > 1)
      by = fmt::format("attend<Shape, {}, {}>", schedule.splits, schedule.ahead);
    else if (schedule.splits > 1)
      by = fmt::format("attend<Shape, {}>", schedule.splits);
    return text + fmt::format("  {}({});\n}}\n", by, problem_of(item));
  }

  std::string maps_text() const {
    return fmt::format("AttentionMaps<{}>{{&map_q, &map_k, &map_v, {}, {}, {}}}",
                       p_.batch.size() + 2, shared_dimensions(p_.q), shared_dimensions(p_.k),
                       shared_dimensions(p_.v));
  }

  const AttentionProgram& p_;
  const std::string& name_;
  ExprTable& exprs_;
  bool programmatic_launch_;
  KernelRequest facts_;
  AttentionParameters args_;
  std::vector<PrologueFunction> prologue_functions_;
  std::vector<Dim> items_;           // of each schedule
  std::vector<std::string> counts_;  // their numbers as text, where a kernel asks for them
  std::vector<std::string> tiles_;   // the same of a head's tiles
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

// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiles/tile_compiler.h"

#include <algorithm>

#include "runtime/cpu/tiles/tile_runs.h"
#include "runtime/format_error.h"
#include "runtime/plan/loop_values.h"

namespace sinter::runtime::cpu {
namespace {

using plan::fb::InstrKind;
using plan::fb::LoopProgramT;

/// Maximum bytes of values kept between stages: a part of the L2 cache.
constexpr std::int64_t kMaxKeptBytes = 512 << 10;
/// Values up to this cost, in arithmetic instructions including loads, are recomputed instead of
/// kept.
constexpr int kCheapValue = 5;

/// Column step of tiles that split a row: a multiple of vectors and of 2, 3 and 4 interleaved
/// values.
constexpr std::int64_t kAligned = 192;

}  // namespace

TileCompiler::TileCompiler(const plan::fb::PlanT& plan, const LoopProgramT& program,
                           std::span<const std::int64_t> expressions, int threads,
                           TileProgram& result)
    : guarded_(with_guarded_loads(program, expressions)),
      program_(guarded_ ? guarded_->program : program),
      expressions_(expressions),
      threads_(threads),
      out_(result),
      loops_(bind_loops(plan, program_, expressions,
                        guarded_ ? std::span<const GuardedAccess>(guarded_->accesses)
                                 : std::span<const GuardedAccess>())),
      count_(program.instrs.size()) {}

void TileCompiler::compile() {
  find_axes_of_values();
  choose_axes();
  classify();
  find_tables();
  find_needed();
  // Assumes first that values persist between stages, which requires tiles with whole rows.
  choose_sizes();
  if (!out_.schedule_.whole_rows) keep_between_stages_ = false;
  emit_stages();
  find_firsts();
  join_reductions();
  forward_stores();
  join_chains();
  widen_streams();
  lay_out();
  evaluate_uniforms();
  evaluate_tables();
}

bool TileCompiler::is_element_axis(std::size_t axis) const {
  return out_.axis_role_[axis] == (out_.schedule_.across ? 'y' : 'x');
}

ValueClass TileCompiler::class_of(const BoundAccess& access) const {
  std::vector<bool> node_is_element(loops_.nodes.size());
  for (std::size_t i = 0; i < loops_.nodes.size(); ++i) {
    const BoundNode& node = loops_.nodes[i];
    if (node.op == plan::fb::ExprOp::Constant) continue;
    node_is_element[i] = node.op == plan::fb::ExprOp::Symbol
                             ? is_element_axis(node.a)
                             : node_is_element[node.a] || node_is_element[node.b];
  }
  const auto moves = [&](const LinearIndex& linear) {
    for (std::size_t a = 0; a < linear.coefficients.size(); ++a)
      if (linear.coefficients[a] != 0 && is_element_axis(a)) return true;
    return false;
  };
  bool element = moves(access.address);
  for (const BoundGather& gather : access.gathers)
    element |= class_[gather.value] == ValueClass::kElement;
  for (const std::uint32_t node : access.nonlinear) element |= node_is_element[node];
  for (const BoundGuard& guard : access.guards)
    element |= guard.linear ? moves(*guard.linear) : node_is_element[guard.node];
  return element ? ValueClass::kElement : ValueClass::kRow;
}

/// Computes each value's class, and the first stage in which it is available.
void TileCompiler::classify() {
  class_.assign(count_, ValueClass::kUniform);
  available_.assign(count_, 0);
  cost_.assign(count_, 0);
  out_.types_.resize(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const plan::fb::InstrT& instr = *program_.instrs[i];
    out_.types_[i] = static_cast<DType>(instr.dtype);
    for (const std::uint32_t arg : operands_of(i)) {
      class_[i] = std::max(class_[i], class_[arg]);
      available_[i] = std::max(available_[i], available_[arg]);
      cost_[i] = std::min(cost_[i] + cost_[arg], 1000);
    }
    switch (instr.kind) {
      case InstrKind::Scatter: class_[i] = ValueClass::kElement; break;
      case InstrKind::Scan:
        class_[i] = ValueClass::kElement;
        cost_[i] += 2;
        break;
      case InstrKind::Load:
      case InstrKind::Store: {
        const BoundAccess& access = loops_.accesses[instr.access];
        class_[i] = std::max(class_[i], class_of(access));
        cost_[i] += access.is_plain() ? compute_type(access.storage) == access.storage ? 1 : 2 : 5;
        break;
      }
      case InstrKind::Op: cost_[i] += work_of(static_cast<ScalarOp>(instr.op)); break;
      case InstrKind::Reduce:
        class_[i] = ValueClass::kRow;
        cost_[i] = 0;
        ++available_[i];
        break;
      case InstrKind::Index: {
        const int axis = loops_.axis_of[instr.dim];
        if (axis >= 0)
          class_[i] = is_element_axis(static_cast<std::size_t>(axis)) ? ValueClass::kElement
                                                                      : ValueClass::kRow;
        cost_[i] = 2;
        break;
      }
      default: break;
    }
    if (class_[i] != ValueClass::kElement) cost_[i] = 0;  // computed once for a row, or once in all
  }
}

std::vector<std::uint32_t> TileCompiler::operands_of(std::size_t i) const {
  const plan::fb::InstrT& instr = *program_.instrs[i];
  if (!byte_source_.empty() && byte_source_[i] != TileInstr::kNone) return {byte_source_[i]};
  std::vector<std::uint32_t> result = instr.args;
  if (plan::is_memory(instr.kind))
    for (const BoundGather& gather : loops_.accesses[instr.access].gathers)
      result.push_back(gather.value);
  return result;
}

void TileCompiler::find_needed() {
  needed_.assign(count_, false);
  for (std::size_t i = count_; i-- > 0;) {
    needed_[i] = needed_[i] || plan::is_store(program_.instrs[i]->kind);
    if (!needed_[i]) continue;
    for (const std::uint32_t arg : operands_of(i)) needed_[arg] = true;
  }
}

void TileCompiler::choose_sizes() {
  TileSchedule& s = out_.schedule_;
  const auto thread_count = static_cast<std::int64_t>(threads_);
  if (s.across) {
    // With few rows, a tile has room for more columns.
    const std::int64_t few_rows = std::clamp<std::int64_t>(s.y_count, 1, kAcrossRows);
    s.tile_cols = std::min(s.x_count, kTileElements / few_rows / 64 * 64);
    const std::int64_t groups = ceil_div(s.x_count, s.tile_cols);
    // Narrower tiles give all threads work, but not below one or two cache lines.
    if (groups * s.z_count < thread_count)
      s.tile_cols = std::max<std::int64_t>(
          std::min<std::int64_t>(s.x_count, 32),
          ceil_div(
              ceil_div(s.x_count, ceil_div(thread_count, std::max<std::int64_t>(s.z_count, 1))),
              16) *
              16);
    // Independent of the number of threads, so that sums have a fixed order. Few columns allow more
    // rows.
    const std::int64_t columns = std::clamp<std::int64_t>(s.x_count, 1, kAcrossColumns);
    s.tile_rows = std::clamp<std::int64_t>(s.y_count, 1, kTileElements / columns);
    if (loops_.scans && !loops_.has_reductions) {
      // Running values are the same for all tiles: these follow memory along its rows.
      constexpr std::int64_t kMostCarries = 1024;
      // Two tiles for each thread, so that others can take a late thread's.
      const std::int64_t share =
          ceil_div(s.x_count, std::max<std::int64_t>(1, ceil_div(2 * thread_count, s.z_count)));
      s.tile_cols = std::max(s.tile_cols, std::min(kMostCarries, ceil_div(share, 16) * 16));
      s.tile_cols = std::min(s.tile_cols, s.x_count);
      s.tile_rows = std::clamp<std::int64_t>(kTileElements / s.tile_cols, 1, s.y_count);
    }
    s.whole_rows = s.tile_rows >= s.y_count;
    return;
  }
  // Narrow types get larger tiles, because an instruction's overhead does not depend on their size.
  std::int64_t widest = 1;
  for (std::size_t i = 0; i < count_; ++i)
    if (class_[i] == ValueClass::kElement && needed_[i])
      widest = std::max(widest, static_cast<std::int64_t>(size_of(out_.types_[i])));
  // Values that persist across repetitions need room too.
  constexpr std::int64_t kRepeatedElements = 1024;
  const std::int64_t room =
      s.repeats > 1 ? kRepeatedElements : kTileElements * 4 / std::min<std::int64_t>(widest, 4);
  s.whole_rows = s.x_count <= room;
  if (!loops_.has_rows() && std::ranges::any_of(out_.accesses_, &TileAccess::is_transposed)) {
    // A cache line holds elements of adjacent rows, so a tile reads several rows.
    constexpr std::int64_t kHigh = 32;
    s.tile_rows = std::min(s.y_count, kHigh);
    s.tile_cols = std::min(s.x_count, room / kHigh);
  } else if (s.whole_rows) {
    s.tile_cols = s.x_count;
    // Rows that are reduced take several instructions each, for which a larger tile pays.
    const std::int64_t wanted = loops_.has_reductions ? 2 * room : room;
    s.tile_rows = std::max<std::int64_t>(1, wanted / std::max<std::int64_t>(s.x_count, 1));
    s.tile_rows =
        std::min(s.tile_rows, std::max<std::int64_t>(1, ceil_div(s.y_count, thread_count)));
  } else {
    // Multiples of the period, so that repeating elements are copied once.
    std::int64_t step = kAligned;
    for (const TileAccess& access : out_.accesses_)
      if (const std::int64_t period = access.period(); period > 0 && period <= room / 4)
        step = period;
    s.tile_cols = std::max(room / step, std::int64_t{1}) * step;
    if (step == kAligned)
      s.tile_cols = ceil_div(ceil_div(s.x_count, ceil_div(s.x_count, room)), step) * step;
    s.tile_rows = 1;
  }
}

/// True for values that always lie in [-1, 1].
bool TileCompiler::is_small(std::size_t i) const {
  const plan::fb::InstrT& instr = *program_.instrs[i];
  if (instr.kind != InstrKind::Op) return false;
  switch (static_cast<ScalarOp>(instr.op)) {
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTanh:
    case ScalarOp::kErf:
    case ScalarOp::kSign: return true;
    default: return false;
  }
}

/// True if addresses have nonlinear terms but no guards.
bool TileCompiler::is_computed(const BoundAccess& access) {
  return !access.nonlinear.empty() && access.guards.empty();
}

std::uint64_t TileCompiler::depends_of_nodes(const BoundAccess& access) const {
  std::uint64_t result = 0;
  for (const std::uint32_t node : access.nonlinear) result |= node_depends_[node];
  return result;
}

bool TileCompiler::has_steady_offsets(std::size_t i) const {
  constexpr std::int64_t kMostElements = INT32_MAX;
  const BoundAccess& access = loops_.accesses[program_.instrs[i]->access];
  const auto is_steady = [&](const BoundGather& gather) -> bool { return steady_[gather.value]; };
  // Varies along columns; otherwise rows are copied whole.
  const auto is_spread = [&](const BoundGather& gather) {
    return std::ranges::any_of(
        out_.axes_.x, [&](std::size_t axis) { return (depends_[gather.value] >> axis & 1) != 0; });
  };
  if (gathers_of_columns(i) != 0) return false;  // each row takes those
  if (out_.schedule_.repeats <= 1 || class_[i] != ValueClass::kElement ||
      access.count > kMostElements || !std::ranges::all_of(access.gathers, is_steady))
    return false;
  if (access.is_plain()) return std::ranges::any_of(access.gathers, is_spread);
  return is_computed(access) && (depends_of_nodes(access) >> out_.axes_.z.back() & 1) == 0;
}

std::uint64_t TileCompiler::gathers_of_columns(std::size_t i) const {
  constexpr std::int64_t kMostElements = INT32_MAX;
  constexpr std::size_t kMostGathers = 64;
  const BoundAccess& access = loops_.accesses[program_.instrs[i]->access];
  if (class_[i] != ValueClass::kElement || !access.is_plain() || access.count > kMostElements ||
      access.gathers.size() > kMostGathers)
    return 0;
  std::uint64_t columns = 0, result = 0;
  for (const std::size_t axis : out_.axes_.x) {
    columns |= std::uint64_t{1} << axis;
    if (access.address.coefficients[axis] < 0) return 0;  // lookups are of ascending offsets
  }
  for (std::size_t g = 0; g < access.gathers.size(); ++g) {
    const std::uint64_t depends = depends_[access.gathers[g].value];
    if ((depends & columns) == 0) continue;
    if ((depends & ~columns) != 0 || access.gathers[g].stride < 0) return 0;
    result |= std::uint64_t{1} << g;
  }
  return result;
}

TileInstr TileCompiler::translate(std::size_t i) const {
  if (byte_source_[i] == TileInstr::kNone) return translate_op(i);
  TileInstr result;
  result.value = static_cast<std::uint32_t>(i);
  result.value_class = class_[i];
  result.type = out_.types_[i];
  result.args[result.arg_count++] = byte_source_[i];
  result.steady = steady_[i];
  result.kernel = find_table_kernel();
  result.table = &out_.tables_[result.value];
  return result;
}

TileInstr TileCompiler::translate_op(std::size_t i) const {
  const plan::fb::InstrT& instr = *program_.instrs[i];
  TileInstr result;
  result.value = static_cast<std::uint32_t>(i);
  result.value_class = class_[i];
  result.type = out_.types_[i];
  if (instr.args.size() > std::size(result.args))
    throw internal_error("instruction {} has {} operands", i, instr.args.size());
  for (const std::uint32_t arg : instr.args) result.args[result.arg_count++] = arg;
  result.steady = steady_[i] && (instr.kind == InstrKind::Load || instr.kind == InstrKind::Op ||
                                 instr.kind == InstrKind::Index);
  switch (instr.kind) {
    case InstrKind::Load:
      result.kind = TileInstr::Kind::kLoad;
      result.access = instr.access;
      break;
    case InstrKind::Store:
      result.kind = TileInstr::Kind::kStore;
      result.access = instr.access;
      break;
    case InstrKind::Scatter:
      result.kind = TileInstr::Kind::kScatter;
      result.access = instr.access;
      if (instr.op != plan::kScatterReplaces) result.combine = static_cast<Combine>(instr.op);
      break;
    case InstrKind::Index:
      result.kind = TileInstr::Kind::kIndex;
      result.axis = loops_.axis_of[instr.dim];
      if (result.axis < 0)  // it is always 0, and would be of class uniform
        throw internal_error("instruction {} is no index", i);
      break;
    case InstrKind::Reduce: result.kind = TileInstr::Kind::kReduce; break;
    case InstrKind::Scan: result.kind = TileInstr::Kind::kScan; break;
    default: {
      const auto op = static_cast<ScalarOp>(instr.op);
      const DType operand = out_.types_[instr.args[op == ScalarOp::kSelect ? 1 : 0]];
      if (is_small(instr.args[0])) result.kernel = find_small_kernel(op, operand);
      if (op == ScalarOp::kCast && instr.precision != plan::fb::Precision::Full &&
          result.type == DType::kFloat32)
        result.kernel = find_odd_cast(operand);
      if (!result.kernel) result.kernel = find_op_kernel(op, operand, result.type);
      if (!result.kernel)
        throw unsupported_error("'{}' on {} giving {} is not supported on the CPU", to_string(op),
                                to_string(operand), to_string(result.type));
    }
  }
  return result;
}

void TileCompiler::emit_stages() {
  int last = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (needed_[i]) last = std::max(last, available_[i]);
  out_.stages_.resize(static_cast<std::size_t>(last) + 1);

  for (std::size_t i = 0; i < count_; ++i) {
    const InstrKind kind = program_.instrs[i]->kind;
    if (!needed_[i] || class_[i] != ValueClass::kRow || kind == InstrKind::Reduce) continue;
    out_.stages_[static_cast<std::size_t>(available_[i])].row.push_back(translate(i));
  }

  std::vector<bool> computed(count_, false);
  kept_.assign(count_, false);
  std::int64_t kept_bytes = 0;
  const TileSchedule& schedule = out_.schedule_;
  for (int stage = 0; stage <= last; ++stage) {
    Stage& out = out_.stages_[static_cast<std::size_t>(stage)];
    // Values that this stage's reductions and stores need, found backwards.
    std::vector<bool> wanted(count_, false), resumed(count_, false);
    for (std::size_t i = count_; i-- > 0;) {
      const InstrKind kind = program_.instrs[i]->kind;
      const bool reduce = kind == InstrKind::Reduce && needed_[i] && available_[i] == stage + 1;
      const bool store =
          plan::is_store(kind) && class_[i] == ValueClass::kElement && available_[i] == stage;
      if (!wanted[i] && !reduce && !store) continue;
      wanted[i] = true;
      if (computed[i]) {
        if (keep_between_stages_) {
          wanted[i] = false;  // still available from an earlier stage
          continue;
        }
        const std::int64_t bytes =
            static_cast<std::int64_t>(size_of(out_.types_[i])) *
            (schedule.across ? schedule.y_count * schedule.tile_cols : schedule.x_count);
        if (kept_[i] || (cost_[i] > kCheapValue && kept_bytes + bytes <= kMaxKeptBytes)) {
          if (!kept_[i]) kept_bytes += bytes;
          kept_[i] = resumed[i] = true;
          continue;
        }
      }
      for (const std::uint32_t arg : operands_of(i))
        if (class_[arg] == ValueClass::kElement) wanted[arg] = true;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      if (!wanted[i]) continue;
      TileInstr instr = translate(i);
      if (resumed[i]) {
        instr.kind = TileInstr::Kind::kResume;
        instr.arg_count = 0;
      }
      if (instr.kind == TileInstr::Kind::kReduce) {
        const auto combine = static_cast<Combine>(program_.instrs[i]->op);
        instr.reduction = static_cast<std::uint32_t>(out_.reductions_.size());
        out.reductions.push_back(instr.reduction);
        out_.reductions_.push_back({find_reduce_kernels(combine, instr.type), combine,
                                    static_cast<std::uint32_t>(i), 0, 0});
      } else {
        computed[i] = true;
      }
      if (instr.kind == TileInstr::Kind::kScan) {
        const plan::fb::InstrT& source = *program_.instrs[i];
        instr.scan = static_cast<std::uint32_t>(out_.scans_.size());
        out_.scans_.push_back(
            {find_scan_kernels(static_cast<Combine>(source.op), instr.type), source.exclusive, 0});
      }
      out.body.push_back(instr);
    }
  }
  for (Stage& stage : out_.stages_)
    for (TileInstr& instr : stage.body)
      instr.kept = kept_[instr.value] && instr.kind != TileInstr::Kind::kStore &&
                   instr.kind != TileInstr::Kind::kScatter &&
                   instr.kind != TileInstr::Kind::kReduce;
}

TileProgram::TileProgram(const plan::fb::PlanT& plan, const LoopProgramT& program,
                         std::span<const std::int64_t> expressions, int threads) {
  TileCompiler(plan, program, expressions, threads, *this).compile();
}

}  // namespace sinter::runtime::cpu

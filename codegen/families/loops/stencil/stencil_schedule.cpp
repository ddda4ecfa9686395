// SPDX-License-Identifier: Apache-2.0
// Windows over contiguous elements (channels first): the rectangle of a block and of a thread.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/families/loops/stencil/stencil_form.h"
#include "codegen/families/loops/window/overlap.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr int kBlock = 128;  // threads: several blocks of a multiprocessor copy while others reduce
constexpr int kMostColumns = 8, kMostRows = 16, kMostBlock = 1024;
constexpr std::int64_t kMostOther = 32;  // elements of a window along further dimensions
constexpr std::int64_t kSharedBytes = 40 * 1024;
constexpr std::int64_t kAssumed = 64;  // size of an image if unknown

std::int64_t assumed(const ProgramAnalysis& analysis, int d) {
  if (d < 0) return 1;
  const ir::Dim& extent = analysis.extent(d);
  return extent.is_constant() ? extent.value() : kAssumed;
}

/// The loads and stores behind the reductions.
std::vector<bool> epilogue(const ProgramAnalysis& analysis) {
  std::vector<bool> behind(analysis.instr_count(), false);
  for (const std::size_t i : analysis.live_accesses())
    behind[i] = !analysis.in_row(i) || analysis.instr(i).kind != InstrKind::Load;
  return behind;
}

bool stores_contiguously(const ProgramAnalysis& analysis, int x) {
  return std::ranges::any_of(analysis.live(InstrKind::Store), [&](std::size_t i) {
    return analysis.stride(analysis.instr(i).access, x) == ir::Dim(1);
  });
}

std::optional<StencilForm> form_of(const ProgramAnalysis& analysis) {
  if (analysis.stages() != 1 || analysis.scans() || analysis.scatters()) return std::nullopt;
  const ir::Dim length = analysis.row_length();
  if (!length.is_constant() || length.value() < 2) return std::nullopt;
  for (const std::size_t i : analysis.live()) {
    const InstrKind kind = analysis.instr(i).kind;
    if (analysis.in_row(i) && (kind == InstrKind::Store || analysis.value(i).stage > 0))
      return std::nullopt;
    if (kind == InstrKind::Load && analysis.value(i).stage > 0) return std::nullopt;
  }
  std::optional<StencilForm> form = StencilForm::of(analysis);
  if (!form || analysis.size_of_dims(form->other_inner()).value() > kMostOther) return std::nullopt;
  // Indices of threads without a result must fit 32 bits as well.
  for (const int d : {form->x().tile_dim, form->y().tile_dim}) {
    const auto most = d < 0 ? 1 : upper(analysis, analysis.extent(d));
    if (!most || *most > INT32_MAX / 256) return std::nullopt;
  }
  if (!stores_contiguously(analysis, form->x().tile_dim)) return std::nullopt;
  std::vector<bool> reduces(analysis.instr_count(), false);
  for (const std::size_t i : analysis.live(InstrKind::Reduce)) reduces[i] = true;
  const std::vector<bool> needed = form->needed_for(reduces);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    // Elements that depend on data would be loaded one by one, as in a row.
    if (needed[i] && analysis.instr(i).kind == InstrKind::Load &&
        form->level(i) == StencilLevel::kElement &&
        !analysis.access(analysis.instr(i).access).gathers.empty())
      return std::nullopt;
  }
  return form;
}

bool takes_stencil(const ProgramAnalysis& analysis) { return form_of(analysis).has_value(); }

/// `own` with `threads_x` by `threads_y` threads for each plane.
Schedule with_threads(const ProgramAnalysis& analysis, StencilParameters own, int threads_x,
                      int threads_y) {
  VectorPlan vectors = no_vectors(analysis);
  if (own.columns > 1) {
    const std::vector<bool> behind = epilogue(analysis);
    const VectorPlan whole = plan_vectors_of(analysis, own.x.tile_dim, own.columns, behind);
    if (whole.vector == own.columns && whole.conditions.empty()) vectors = whole;
  }
  const int planes = own.planes;
  return with_vectors(vectors, std::move(own), 0, threads_x, threads_y * planes);
}

/// Rows of a thread: as many as share what they read, while there are threads enough.
int most_rows(const ProgramAnalysis& analysis, const StencilForm& form, std::int64_t columns) {
  const Overlap& y = form.y();
  if (y.tile_dim < 0 || form.height() * y.element_step <= y.row_step) return 1;
  const std::int64_t most = form.height() >= 9 && form.is_separable() ? 8 : 4;
  const ir::Dim planes = analysis.size_of_dims(form.planes());
  const double results = static_cast<double>(assumed(analysis, form.x().tile_dim)) *
                         static_cast<double>(assumed(analysis, y.tile_dim)) *
                         (planes.is_constant() ? static_cast<double>(planes.value()) : 1.0);
  const double enough = 512.0 * analysis.device().multiprocessors;  // threads
  std::int64_t rows = 1;
  while (rows < most && rows * 2 <= assumed(analysis, y.tile_dim) &&
         results / static_cast<double>(columns * rows * 2) >= enough)
    rows *= 2;
  return static_cast<int>(rows);
}

/// `count` divided into parts as equal as possible of at most `most`.
int even_part(std::int64_t count, int most) { return ceil_div(count, ceil_div(count, most)); }

/// Halves what a block has in shared memory; false if it is one result.
bool halve(StencilParameters& own, int& threads_x, int& threads_y) {
  for (int* size : {&own.planes, &own.rows, &threads_y, &threads_x, &own.columns}) {
    if (*size == 1) continue;
    *size /= 2;
    return true;
  }
  return false;
}

std::vector<Schedule> choose_stencil(const ProgramAnalysis& analysis) {
  const StencilForm form = *form_of(analysis);
  const std::int64_t width = assumed(analysis, form.x().tile_dim),
                     height = assumed(analysis, form.y().tile_dim);
  StencilParameters own;
  own.x = form.x();
  own.y = form.y();
  own.columns = std::min(4, power_of_two_up(width));
  own.rows = most_rows(analysis, form, own.columns);
  int threads_x = even_part(ceil_div(width, own.columns), 32);
  int threads_y = even_part(ceil_div(height, own.rows), std::max(kBlock / threads_x, 1));
  const ir::Dim planes = analysis.size_of_dims(form.planes());
  const std::int64_t all = planes.is_constant() ? planes.value() : kBlock;
  own.planes =
      even_part(std::min<std::int64_t>(all, kBlock), std::max(kBlock / (threads_x * threads_y), 1));
  Schedule schedule = with_threads(analysis, own, threads_x, threads_y);
  while (stencil_bytes(analysis, form, schedule) > kSharedBytes && halve(own, threads_x, threads_y))
    schedule = with_threads(analysis, own, threads_x, threads_y);
  return {schedule};
}

Schedule complete_stencil(const ProgramAnalysis& analysis, const Schedule& requested,
                          const std::string&) {
  const auto refuse = [&](const std::string& why) { refuse_schedule(analysis, "stencil", why); };
  const std::optional<StencilForm> form = form_of(analysis);
  if (!form) refuse("it has no windows over contiguous elements");
  StencilParameters own = requested.as<StencilParameters>();
  own.x = form->x();
  own.y = form->y();
  if (own.columns > kMostColumns || own.rows > kMostRows || requested.threads() > kMostBlock)
    refuse("it has too many results or threads");
  if (own.rows > 1 && !form->has_rows()) refuse("its windows lie along one dimension");
  if (requested.threads_y % own.planes != 0) refuse("planes do not divide its threads");
  if (!form->has_rows() && requested.threads_y != own.planes)
    refuse("its windows lie along one dimension");
  Schedule schedule =
      with_threads(analysis, own, requested.threads_x, requested.threads_y / own.planes);
  if (requested.vector > 1 && schedule.vector != requested.vector)
    refuse(fmt::format("its vectors are {} long", schedule.vector));
  if (stencil_bytes(analysis, *form, schedule) > 48 * 1024) refuse("it needs too much memory");
  return schedule;
}

void search_stencil(CandidateSearch& search) {
  const auto& rule = search.rule.as<StencilParameters>();
  const int rule_y = search.rule.threads_y / rule.planes;
  for (const int columns : {2, 4, 8})
    for (const int rows : {1, 2, 4, 8})
      for (const int threads_x : {8, 16, 32, search.rule.threads_x})
        for (const int threads_y : {4, 8, 16, rule_y}) {
          StencilParameters own;
          own.columns = columns;
          own.rows = rows;
          own.planes = rule.planes;
          Schedule schedule{own};
          schedule.threads_x = threads_x;
          schedule.threads_y = threads_y * rule.planes;
          search.add_completed(complete_stencil, schedule,
                               steps_between(columns, rule.columns) +
                                   steps_between(rows, rule.rows) +
                                   steps_between(threads_x, search.rule.threads_x) +
                                   steps_between(threads_y, rule_y));
        }
}

}  // namespace

const LoopSchedule kStencilSchedule = {true,           takes_stencil, choose_stencil,
                                       search_stencil, map_stencil,   complete_stencil};

}  // namespace sinter::codegen

// SPDX-License-Identifier: Apache-2.0
// The text of a recurrent layer's kernel: parameters and arguments; the rest is in
// recurrent.cuh.
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/families/recurrent/recurrent_lowering.h"

namespace sinter::codegen {
namespace {

constexpr const char* kNames[kRecurrentRoles] = {
    "x", "weights", "bias", "initial_h", "initial_c", "lengths", "y", "last_h", "last_c"};

bool is_result(std::size_t role) { return role >= static_cast<std::size_t>(RecurrentRole::kY); }

std::string cell_name(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kLstm: return "LstmCell";
    case RecurrentCell::kGru: return "GruCell";
    case RecurrentCell::kResetFirstGru: return "ResetFirstGruCell";
    case RecurrentCell::kRnn: break;
  }
  return "RnnCell";
}

class RecurrentEmitter {
 public:
  RecurrentEmitter(const RecurrentProgram& program, const KernelRequest& request, ExprTable& exprs)
      : p_(program), request_(request), exprs_(exprs) {
    std::size_t given = 0;
    for (std::size_t role = 0; role < kRecurrentRoles; ++role) {
      if (!p_.buffers[role]) continue;
      parameters_.push_back(fmt::format("{}{}* __restrict__ {}", is_result(role) ? "" : "const ",
                                        storage_name(request.buffer_types.at(given++)),
                                        kNames[role]));
      args_.emplace_back(ArgKind::Buffer, *p_.buffers[role]);
    }
  }

  EmittedKernel emit(const std::string& forced) {
    EmittedKernel kernel;
    std::vector<RecurrentSchedule> schedules =
        choose_recurrent(p_, exprs_, *request_.device, forced);
    std::vector<std::string> chosen_by(schedules.size(), kChosenByUser);
    if (forced.empty())
      chosen_by = apply_requested(
          request_.requested, schedules, kernel.choices,
          [&](const RecurrentSchedule& rule) {
            auto all = recurrent_schedules(p_.layer(), rule.columns, *request_.device);
            for (RecurrentSchedule& candidate : all) candidate.conditions = rule.conditions;
            return all;
          },
          // Targets without clusters have no such regions.
          [](const RecurrentSchedule&) { return true; });
    const std::string steps = size("steps", p_.steps), batch = size("batch", p_.batch);
    kernel.source = kernel_heading(request_.name, request_.origins);
    kernel.source += "#include \"recurrent.cuh\"\n";
    for (std::size_t s = 0; s < schedules.size(); ++s) {
      const RecurrentSchedule& schedule = schedules[s];
      kernel.step.variants.push_back(variant(schedule, s, chosen_by[s]));
      const KernelVariantT& own = *kernel.step.variants.back();
      kernel.source += fmt::format("\n// schedule: {}\n", own.schedule);
      if (!own.conditions.empty())
        kernel.source += fmt::format("// where {}\n", conditions_text(own.conditions, exprs_));
      kernel.source +=
          fmt::format("extern \"C\" __global__ void __launch_bounds__({}, 1)\n{} {{\n{}}}\n",
                      schedule.threads(), signature_text(own.function, parameters_),
                      body(schedule, steps, batch));
    }
    kernel.step.args = args_;
    return kernel;
  }

 private:
  std::unique_ptr<KernelVariantT> variant(const RecurrentSchedule& schedule, std::size_t number,
                                          const std::string& chosen_by) {
    auto result = std::make_unique<KernelVariantT>();
    result->function = number == 0 ? request_.name : fmt::format("{}_v{}", request_.name, number);
    const Dim clusters =
        Dim(p_.directions) * ir::ceil_div(p_.batch, schedule.columns, exprs_.ranges());
    result->conditions = schedule.conditions;
    result->grid = {exprs_.intern(clusters * Dim(schedule.blocks)), exprs_.intern(1),
                    exprs_.intern(1)};
    result->block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
    result->shared_bytes = recurrent_shared_bytes(p_.layer(), schedule);
    result->schedule = schedule.to_string();
    result->chosen_by = chosen_by;
    result->cluster = static_cast<std::uint32_t>(schedule.blocks);
    result->programmatic_launch = request_.programmatic_launch;
    return result;
  }

  /// A literal, or a new parameter.
  std::string size(const std::string& name, const Dim& dim) {
    if (dim.is_constant()) return int_literal(dim.value());
    parameters_.push_back(fmt::format("i64 {}", name));
    args_.emplace_back(ArgKind::Int64, exprs_.intern(dim));
    return name;
  }

  std::string operand(RecurrentRole role) const {
    return p_.buffer(role) ? kNames[static_cast<std::size_t>(role)] : "Absent{}";
  }

  std::string wait() const {
    if (!request_.programmatic_launch) return "";
    std::string text = "  grid_dependency_wait();\n";
    for (std::size_t role = 0; role < kRecurrentRoles; ++role)
      if (p_.buffers[role] && !is_result(role))
        text += fmt::format("  {0} = after_grid_wait({0});\n", kNames[role]);
    return text;
  }

  std::string body(const RecurrentSchedule& s, const std::string& steps,
                   const std::string& batch) const {
    std::string text = fmt::format(
        "  typedef RecurrentShape<{}, {}, /*units*/ {}, /*directions*/ {}, /*backwards*/ {},\n"
        "                         /*blocks*/ {}, /*warps*/ {}, /*held*/ {}, /*columns*/ {}>\n"
        "      Shape;\n",
        storage_name(p_.dtype), cell_name(p_.cell), p_.units, p_.directions, p_.backwards, s.blocks,
        s.warps, s.held, s.columns);
    text +=
        fmt::format("  static_assert(Shape::kSharedBytes == {}, \"what the launch reserves\");\n",
                    recurrent_shared_bytes(p_.layer(), s));
    // The next kernel waits for all of this one; it may start once all blocks run.
    if (request_.programmatic_launch) text += "  launch_dependents();\n";
    const bool early = request_.given.contains(*p_.buffer(RecurrentRole::kWeights));
    if (!early) text += wait();
    text += "  RecurrentWeights<Shape> kept;\n";
    text += "  load_recurrent_weights<Shape>(weights, kept);\n";
    if (early) text += wait();
    text += fmt::format("  run_recurrent<Shape>(kept, x, {}, {}, {}, {}, {}, {}, {}, {}, {});\n",
                        operand(RecurrentRole::kBias), operand(RecurrentRole::kInitialH),
                        operand(RecurrentRole::kInitialC), operand(RecurrentRole::kLengths),
                        operand(RecurrentRole::kY), operand(RecurrentRole::kLastH),
                        operand(RecurrentRole::kLastC), steps, batch);
    return text;
  }

  const RecurrentProgram& p_;
  const KernelRequest& request_;
  ExprTable& exprs_;
  std::vector<std::string> parameters_;
  std::vector<KernelArg> args_;
};

}  // namespace

EmittedKernel emit_recurrent(const RecurrentProgram& program, const KernelRequest& request,
                             const std::string& schedule, ExprTable& exprs) {
  return RecurrentEmitter(program, request, exprs).emit(schedule);
}

}  // namespace sinter::codegen

// The text of a recurrent layer's kernel: its parameters and what they are; the rest is
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

constexpr int kColumns = 8;  // sequences of a cluster

constexpr const char* kNames[kRecurrentRoles] = {
    "x", "weights", "bias", "initial_h", "initial_c", "lengths", "y", "last_h", "last_c"};

bool is_result(std::size_t role) { return role >= static_cast<std::size_t>(RecurrentRole::kY); }

std::string cell_name(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kLstm: return "LstmCell";
    case RecurrentCell::kGru: return "GruCell";
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

  EmittedKernel emit(const RecurrentSchedule& schedule, const std::string& chosen_by) {
    EmittedKernel kernel;
    const std::string steps = size("steps", p_.steps), batch = size("batch", p_.batch);
    kernel.source = kernel_heading(request_.name, request_.origins);
    kernel.source += "#include \"recurrent.cuh\"\n\n";
    kernel.source += fmt::format("// schedule: {}\n", schedule.to_string());
    kernel.source += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, 1)\n{} {{\n{}}}\n", schedule.threads(),
        signature_text(request_.name, parameters_), body(schedule, steps, batch));
    auto variant = std::make_unique<KernelVariantT>();
    variant->function = request_.name;
    const Dim clusters = Dim(p_.directions) * ir::ceil_div(p_.batch, kColumns, exprs_.ranges());
    variant->grid = {exprs_.intern(clusters * Dim(schedule.blocks)), exprs_.intern(1),
                     exprs_.intern(1)};
    variant->block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
    variant->shared_bytes = recurrent_shared_bytes(p_.units, schedule);
    variant->schedule = schedule.to_string();
    variant->chosen_by = chosen_by;
    variant->cluster = static_cast<std::uint32_t>(schedule.blocks);
    variant->programmatic_launch = request_.programmatic_launch;
    kernel.step.variants.push_back(std::move(variant));
    kernel.step.args = args_;
    return kernel;
  }

 private:
  /// A literal, or a parameter.
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
        "                         /*blocks*/ {}, /*warps*/ {}, /*held*/ {}>\n      Shape;\n",
        storage_name(p_.dtype), cell_name(p_.cell), p_.units, p_.directions, p_.backwards, s.blocks,
        s.warps, s.held);
    text +=
        fmt::format("  static_assert(Shape::kSharedBytes == {}, \"what the launch reserves\");\n",
                    recurrent_shared_bytes(p_.units, s));
    // The next kernel waits for all of this one: it is launched once all blocks run.
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
  std::vector<RecurrentSchedule> schedules = recurrent_schedules(program.units, *request.device);
  if (schedules.empty())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the weights of a recurrent layer of {} units do not fit on chip on {}",
                            program.units, request.device->architecture));
  if (!schedule.empty()) {
    schedules = {parse_recurrent(schedule, program.units, *request.device)};
    return RecurrentEmitter(program, request, exprs).emit(schedules[0], kChosenByUser);
  }
  return RecurrentEmitter(program, request, exprs).emit(schedules[0], "");
}

}  // namespace sinter::codegen

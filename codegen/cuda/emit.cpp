// Loop programs as CUDA translation units: schedules, then text.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/cuda/body_writer.h"
#include "codegen/cuda/cuda_kernels.h"

namespace sinter::codegen {

namespace {

/// Names from a model may hold anything; in a comment they must not end its line.
std::string comment_text(std::string_view text) {
  std::string safe;
  for (char c : text)
    safe += std::iscntrl(static_cast<unsigned char>(c)) != 0 || c == '\\' ? '?' : c;
  return safe;
}

std::string conditions_text(const Schedule& schedule, const ExprTable& exprs) {
  std::vector<std::string> all;
  for (const auto& condition : schedule.conditions) {
    const std::string size = exprs.dim(condition.expression()).to_string();
    if (condition.divisor() > 1)
      all.push_back(fmt::format("{} % {} == 0", size, condition.divisor()));
    if (condition.max() != INT64_MAX) all.push_back(fmt::format("{} <= {}", size, condition.max()));
  }
  return comment_text(fmt::format("{}", fmt::join(all, ", ")));
}

Layout make_layout(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  switch (schedule.family) {
    case Family::kPointwise: return layout_pointwise(analysis, schedule, args);
    case Family::kRow: return layout_row(analysis, schedule, args);
    case Family::kColumn: return layout_column(analysis, schedule, args);
  }
  throw Error(ErrorCode::kInternal, "unknown schedule family");
}

/// "name(const f16* __restrict__ x0,\n     ...)", broken at 100 columns.
std::string signature(const std::string& name, const std::vector<std::string>& parameters) {
  std::string text = name + "(";
  const std::string indent(text.size(), ' ');
  std::size_t column = text.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string parameter = parameters[i] + (i + 1 < parameters.size() ? "," : ")");
    if (i > 0 && column + parameter.size() + 1 > 98) {
      text += "\n" + indent;
      column = indent.size();
    } else if (i > 0) {
      text += " ";
      ++column;
    }
    text += parameter;
    column += parameter.size();
  }
  return text;
}

}  // namespace

EmittedKernel emit_cuda(const KernelRequest& request, ExprTable& exprs) {
  const ProgramAnalysis analysis(request, exprs);
  const std::vector<Schedule> schedules = choose_schedules(analysis);
  Arguments args(analysis);
  EmittedKernel kernel;
  std::vector<std::string> bodies;
  for (std::size_t s = 0; s < schedules.size(); ++s) {
    const Schedule& schedule = schedules[s];
    const Layout layout = make_layout(analysis, schedule, args);
    CodeText body(1);
    BodyWriter(analysis, args, layout, body).write();
    bodies.push_back(body.text());

    auto variant = std::make_unique<plan::fb::KernelVariantT>();
    variant->conditions = schedule.conditions;
    variant->function = s == 0 ? request.name : fmt::format("{}_v{}", request.name, s);
    variant->grid = {exprs.intern(layout.blocks), exprs.intern(1), exprs.intern(1)};
    variant->block = layout.block;
    variant->schedule = schedule.to_string();
    kernel.step.variants.push_back(std::move(variant));
  }

  // Parameters are the same for all variants, so they are known only now.
  std::string text = fmt::format("// {}\n", comment_text(request.name));
  for (const std::string& origin : request.origins)
    text += fmt::format("// from {}\n", comment_text(origin));
  text += analysis.stages() > 0 ? "#include \"reduce.cuh\"\n" : "#include \"math.cuh\"\n";
  if (std::any_of(schedules.begin(), schedules.end(),
                  [](const Schedule& schedule) { return schedule.vector > 1; }))
    text += "#include \"vector.cuh\"\n";
  const std::vector<std::string> parameters = args.parameters();
  for (std::size_t s = 0; s < schedules.size(); ++s) {
    const auto& variant = *kernel.step.variants[s];
    text += fmt::format("\n// schedule: {}\n", variant.schedule);
    if (!schedules[s].conditions.empty())
      text += fmt::format("// where {}\n", conditions_text(schedules[s], exprs));
    text += fmt::format("extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}}}\n",
                        schedules[s].threads(), signature(variant.function, parameters), bodies[s]);
  }
  kernel.source = std::move(text);
  kernel.step.args = args.kernel_args();
  return kernel;
}

}  // namespace sinter::codegen

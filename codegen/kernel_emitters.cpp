#include "codegen/kernel_emitters.h"

#include <memory>

#include "codegen/families/attention/emit_attention.h"
#include "codegen/families/gemm/emit_gemm.h"
#include "codegen/families/gemm/gemm_tactics.h"
#include "codegen/families/gemm/weights/emit_unpack.h"
#include "codegen/families/horizontal/emit_horizontal.h"
#include "codegen/families/loops/emit_loops.h"
#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

using plan::fb::LoopProgramT;

KernelEmitters::KernelEmitters(const CompileOptions& options, ExprTable& exprs)
    : options_(options), exprs_(exprs) {
  if (!options.schedule.empty()) check_family(options.schedule);
}

KernelRequest KernelEmitters::request(const std::string& name,
                                      const std::vector<std::string>& origins,
                                      std::vector<DType> types) const {
  KernelRequest request{nullptr, name, origins, std::move(types)};
  request.early = options_.early_launch;
  request.given = given_;
  request.precise = options_.precise_math;
  return request;
}

EmitKernel KernelEmitters::loops(LoopProgramT program) const {
  return [this, program = std::make_shared<const LoopProgramT>(std::move(program))](
             const std::string& name, const std::vector<std::string>& origins,
             std::vector<DType> types) {
    KernelRequest own = request(name, origins, std::move(types));
    own.program = program.get();
    if (!is_attention_schedule()) own.schedule = options_.schedule;
    own.wish = wish_;
    return emit_loops(own, exprs_);
  };
}

EmitKernel KernelEmitters::horizontals(HorizontalProgram program) const {
  return [this, program = std::make_shared<const HorizontalProgram>(std::move(program))](
             const std::string& name, const std::vector<std::string>& origins,
             std::vector<DType> types) {
    return emit_horizontal(*program, request(name, origins, std::move(types)), exprs_);
  };
}

EmitKernel KernelEmitters::attentions(AttentionProgram program) const {
  return [this, program = std::make_shared<const AttentionProgram>(std::move(program))](
             const std::string& name, const std::vector<std::string>& origins,
             std::vector<DType> types) {
    return emit_attention(*program, name, origins, exprs_, options_.early_launch,
                          is_attention_schedule() ? options_.schedule : std::string(), wish_,
                          request(name, origins, std::move(types)));
  };
}

EmitKernel KernelEmitters::unpacking(const UnpackProgram& program) const {
  return [this, program](const std::string& name, const std::vector<std::string>& origins,
                         const std::vector<DType>&) {
    return emit_unpack(program, name, origins, exprs_, options_.early_launch);
  };
}

EmitKernel KernelEmitters::product(const ProductProgram& product) const {
  return [this, shared = std::make_shared<const ProductProgram>(product)](
             const std::string& name, const std::vector<std::string>& origins,
             std::vector<DType> types) {
    KernelRequest own = product_request(*shared, name, origins, std::move(types));
    own.wish = wish_;
    return emit_gemm(own, exprs_);
  };
}

KernelRequest KernelEmitters::product_request(const ProductProgram& product,
                                              const std::string& name,
                                              std::vector<std::string> origins,
                                              std::vector<DType> types) const {
  types.insert(types.begin() + product.product, product.type);
  KernelRequest own = request(name, origins, std::move(types));
  set_product(own, product);
  if (is_schedule(options_.product)) own.schedule = options_.product;
  return own;
}

}  // namespace sinter::codegen

// SPDX-License-Identifier: Apache-2.0
// Encoders of texts, and what is refused. tests/models/check_encoders.py compares what they compute
// with transformers.
#include <nlohmann/json.hpp>

#include "frontend/decoders/config/read_config.h"
#include "frontend/decoders/encoder_graph.h"
#include "frontend/decoders/import_decoder.h"
#include "frontend/decoders/known_models.h"
#include "frontend/decoders/speech_graph.h"
#include "tests/frontend/decoders/zeros.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Shapes = std::map<std::string, ir::Ints, std::less<>>;

/// Members of a config.json of a small encoder; those of `more` replace them.
std::string encoder(const std::string& type, const std::string& more = "") {
  nlohmann::json config = {{"model_type", type},
                           {"hidden_size", 8},
                           {"intermediate_size", 12},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", 2},
                           {"vocab_size", 10},
                           {"max_position_embeddings", 64},
                           {"pad_token_id", 1}};
  config.update(nlohmann::json::parse("{" + more + "}"));
  return config.dump();
}

Shapes bert_shapes(const std::string& prefix = "") {
  Shapes shapes{{prefix + "embeddings.word_embeddings.weight", {10, 8}},
                {prefix + "embeddings.position_embeddings.weight", {64, 8}},
                {prefix + "embeddings.token_type_embeddings.weight", {2, 8}}};
  const auto vector = [&](const std::string& name, std::int64_t size) {
    shapes[prefix + name + ".bias"] = {size};
    return &(shapes[prefix + name + ".weight"] = {size});
  };
  const std::string layer = "encoder.layer.0.";
  for (const char* name : {"attention.output.LayerNorm", "output.LayerNorm"})
    vector(layer + name, 8);
  vector("embeddings.LayerNorm", 8);
  for (const char* name : {"self.query", "self.key", "self.value", "output.dense"})
    *vector(layer + "attention." + name, 8) = {8, 8};
  *vector(layer + "intermediate.dense", 12) = {12, 8};
  *vector(layer + "output.dense", 8) = {8, 12};
  return shapes;
}

ir::Graph graph_of(const std::string& text, const Shapes& shapes) {
  const auto keys = keys_of_json(text);
  const EncoderRow* row = find_encoder(keys->text("model_type").value_or(""));
  return encoder_graph(*row, read_encoder_config(*row, *keys), std::make_shared<Zeros>(shapes),
                       nullptr);
}

std::string refused_encoder(const std::string& text, const Shapes& shapes = bert_shapes(),
                            ErrorCode code = ErrorCode::kUnsupported) {
  try {
    graph_of(text, shapes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "it was read";
}

std::vector<std::string> inputs_of(const ir::Graph& graph) {
  std::vector<std::string> inputs;
  for (const ir::ValueId input : graph.inputs()) inputs.push_back(graph.value(input).name);
  return inputs;
}

TEST(EncoderGraph, HasInputsAndOutputsOfAnExport) {
  const auto graph = graph_of(encoder("bert"), bert_shapes());
  ir::verify(graph);
  EXPECT_THAT(inputs_of(graph), ElementsAre("input_ids", "attention_mask", "token_type_ids"));
  EXPECT_THAT(graph.output_names(), ElementsAre("last_hidden_state"));
  EXPECT_EQ(to_string(graph.type(graph.outputs()[0])), "f32[batch, sequence, 8]");
  EXPECT_EQ(graph.ranges().at("sequence").max, 64);
  EXPECT_EQ(graph.ranges().at("batch").max, 65536);  // as of an ONNX model
}

TEST(EncoderGraph, PositionsBehindPadding) {
  auto shapes = bert_shapes("roberta.");
  shapes["roberta.embeddings.token_type_embeddings.weight"] = {1, 8};
  const auto graph = graph_of(encoder("roberta", R"("type_vocab_size":1)"), shapes);
  ir::verify(graph);
  EXPECT_THAT(inputs_of(graph), ElementsAre("input_ids", "attention_mask"));
  EXPECT_EQ(graph.ranges().at("sequence").max, 62);
}

TEST(EncoderGraph, HeadsAndWhatIsLeftOut) {
  auto shapes = bert_shapes("bert.");
  shapes["bert.pooler.dense.weight"] = {8, 8};
  shapes["bert.pooler.dense.bias"] = {8};
  shapes["cls.predictions.bias"] = {10};
  EXPECT_EQ(refused_encoder(encoder("bert", R"("architectures":["BertForPreTraining"])"), shapes),
            "it was read");
  shapes["classifier.weight"] = {3, 8};
  shapes["classifier.bias"] = {3};
  const auto graph =
      graph_of(encoder("bert", R"("architectures":["BertForSequenceClassification"])"), shapes);
  EXPECT_EQ(to_string(graph.type(graph.outputs()[0])), "f32[batch, 3]");
  EXPECT_THAT(graph.output_names(), ElementsAre("logits"));
  EXPECT_THAT(
      refused_encoder(encoder("bert", R"("architectures":["BertForTokenClassification"])"), shapes),
      HasSubstr("'classifier.bias', 'classifier.weight'"));
}

/// BERT's first checkpoints have other names.
TEST(EncoderGraph, OldNamesOfNorms) {
  Shapes shapes;
  for (const auto& [own, shape] : bert_shapes()) {
    std::string name = own;
    const auto at = name.find("LayerNorm.");
    if (at != std::string::npos)
      name = name.substr(0, at + 10) + (name.ends_with("weight") ? "gamma" : "beta");
    shapes[name] = shape;
  }
  EXPECT_EQ(refused_encoder(encoder("bert"), shapes), "it was read");
}

TEST(EncoderGraph, RefusesByName) {
  EXPECT_THAT(refused_encoder(encoder("bert", R"("position_embedding_type":"relative_key")")),
              AllOf(HasSubstr("'relative_key'"), HasSubstr("pysinter[export]")));
  EXPECT_THAT(refused_encoder(encoder("bert", R"("is_decoder":true)")), HasSubstr("'is_decoder'"));
  EXPECT_THAT(refused_encoder(encoder("bert", R"("hidden_act":"xielu")")), HasSubstr("'xielu'"));
  EXPECT_THAT(refused_encoder(encoder("bert", R"("pruned_heads":{"0":[1]})")),
              HasSubstr("'pruned_heads'"));
  EXPECT_THAT(refused_encoder(encoder("bert", R"("num_attention_heads":3)"), bert_shapes(),
                              ErrorCode::kInvalidModel),
              HasSubstr("does not divide"));
  EXPECT_THAT(refused_encoder(encoder("roberta", R"("pad_token_id":9223372036854775807)"),
                              bert_shapes(), ErrorCode::kInvalidModel),
              HasSubstr("'pad_token_id'"));
  EXPECT_THAT(refused_encoder(encoder("mpnet", R"("relative_attention_num_buckets":2)"),
                              bert_shapes(), ErrorCode::kInvalidModel),
              HasSubstr("'relative_attention_num_buckets'"));
  auto shapes = bert_shapes();
  shapes.erase("encoder.layer.0.output.dense.bias");
  EXPECT_THAT(refused_encoder(encoder("bert"), shapes),
              HasSubstr("'encoder.layer.0.output.dense.bias' is missing"));
  shapes = bert_shapes();
  shapes["qa_outputs.weight"] = {2, 8};
  EXPECT_THAT(refused_encoder(encoder("bert"), shapes), HasSubstr("'qa_outputs.weight'"));
  shapes = bert_shapes();
  shapes["embeddings.position_embeddings.weight"] = {63, 8};
  EXPECT_THAT(refused_encoder(encoder("bert"), shapes),
              HasSubstr("the configuration makes it [64, 8]"));
}

TEST(SpeechGraph, RefusesByName) {
  const auto refused = [](const std::string& more) -> std::string {
    nlohmann::json config = nlohmann::json::parse(R"({"d_model":8,"num_mel_bins":4,"vocab_size":10,
        "encoder_layers":1,"decoder_layers":1,"encoder_attention_heads":2,
        "decoder_attention_heads":2,"encoder_ffn_dim":8,"decoder_ffn_dim":8,
        "max_source_positions":6,"max_target_positions":5,"is_encoder_decoder":true,
        "suppress_tokens":[1,2],"forced_decoder_ids":[[1,2]]})");
    config.update(nlohmann::json::parse("{" + more + "}"));
    const auto keys = keys_of_json(config.dump());
    std::vector<std::string> notes;
    try {
      speech_graph(*keys, std::make_shared<Zeros>(Shapes()), nullptr, false, false, notes);
    } catch (const Error& error) {
      EXPECT_THAT(notes, testing::IsEmpty());
      return error.what();
    }
    return "it was read";
  };
  EXPECT_THAT(refused(""), AllOf(HasSubstr("'model.decoder.embed_tokens.weight' is missing"),
                                 HasSubstr("pysinter[export]")));
  EXPECT_THAT(refused(R"("decoder_attention_heads":3)"), HasSubstr("'decoder_attention_heads'"));
  EXPECT_THAT(refused(R"("tie_word_embeddings":false)"), HasSubstr("'tie_word_embeddings'"));
  EXPECT_THAT(refused(R"("encoder_layers":0)"), HasSubstr("'encoder_layers' is 0"));
  EXPECT_THAT(refused(R"("activation_function":"xielu")"), HasSubstr("'xielu'"));
}

TEST(EncoderSource, OthersNameWhatIsKnown) {
  try {
    architecture_of(*keys_of_json(encoder("albert")));
    ADD_FAILURE() << "it is known";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'albert'"), HasSubstr("xlm-roberta")));
  }
}

}  // namespace
}  // namespace sinter::frontend

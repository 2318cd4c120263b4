"""Presets of tiny sizes with random weights, of the families that tests fine-tune."""

import string

import keras

SENTENCES = ["a good movie", "a bad movie", "the good one", "the bad one"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "movie", "one", "a", "the"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>", "<|begin_of_text|>",
           "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<|im_start|>", "<|im_end|>"]  # fmt: skip


def make_byte_pairs(*, is_byte_level=True):
    """Returns vocabulary and merges: all printable characters, the space and the line's end."""
    signs = [*string.printable.strip(), "Ġ", "Ċ"] if is_byte_level else [*string.printable]
    words = [*SPECIAL, *signs, "go", "od", "good", "Ġa"]
    merges = ["g o", "o d", "go od", "Ġ a"]
    return {"vocabulary": {word: n for n, word in enumerate(words)}, "merges": merges}


def make_sentence_pieces(directory, **special):
    import sentencepiece  # noqa: PLC0415 - only some families

    source = directory / "corpus.txt"
    source.write_text("\n".join(SENTENCES * 4))
    sentencepiece.SentencePieceTrainer.train(
        input=str(source), model_prefix=str(directory / "pieces"), vocab_size=38,
        hard_vocab_limit=False, **special,
    )  # fmt: skip
    return (directory / "pieces.model").read_bytes()


def make_resnet(models, image_shape):
    return models.ResNetBackbone(
        input_conv_filters=[64], input_conv_kernel_sizes=[3], stackwise_num_filters=[64, 64],
        stackwise_num_blocks=[1, 1], stackwise_num_strides=[1, 2], block_type="basic_block",
        image_shape=image_shape,
    )  # fmt: skip


def make(family, directory, *, task=None, seed=1):
    """Writes a preset, and returns its path."""
    import keras_hub  # noqa: PLC0415 - so that collecting tests does not wait for it

    keras.utils.set_random_seed(seed)
    models = keras_hub.models
    sizes = {"num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32}
    text = {**sizes, "num_heads": 2, "max_sequence_length": 64}
    decoder = {"num_layers": 2, "num_query_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
    path = directory / family
    path.mkdir(parents=True)
    match family:
        case "bert":
            tokenizer = models.BertTokenizer(vocabulary=PIECES)
            backbone = models.BertBackbone(vocabulary_size=len(PIECES), **text)
        case "distil_bert":
            tokenizer = models.DistilBertTokenizer(vocabulary=PIECES)
            backbone = models.DistilBertBackbone(vocabulary_size=len(PIECES), **text)
        case "roberta":
            tokenizer = models.RobertaTokenizer(**make_byte_pairs())
            backbone = models.RobertaBackbone(vocabulary_size=tokenizer.vocabulary_size(), **text)
        case "albert":
            proto = make_sentence_pieces(
                path, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
                control_symbols="[CLS],[SEP],[MASK]",
            )  # fmt: skip
            tokenizer = models.AlbertTokenizer(proto=proto)
            backbone = models.AlbertBackbone(
                vocabulary_size=tokenizer.vocabulary_size(), embedding_dim=8, **text
            )
        case "deberta_v3":
            proto = make_sentence_pieces(
                path, pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]",
                bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]",
                user_defined_symbols="[MASK]",
            )  # fmt: skip
            tokenizer = models.DebertaV3Tokenizer(proto=proto)
            backbone = models.DebertaV3Backbone(
                vocabulary_size=tokenizer.vocabulary_size() + 1, bucket_size=16, dropout=0.0, **text
            )
        case "gpt2":
            tokenizer = models.GPT2Tokenizer(**make_byte_pairs())
            backbone = models.GPT2Backbone(vocabulary_size=tokenizer.vocabulary_size(), **text)
        case "gemma":
            proto = make_sentence_pieces(
                path, pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="<pad>",
                bos_piece="<bos>", eos_piece="<eos>", unk_piece="<unk>",
                user_defined_symbols="<start_of_turn>,<end_of_turn>",
            )  # fmt: skip
            tokenizer = models.GemmaTokenizer(proto=proto)
            backbone = models.GemmaBackbone(
                vocabulary_size=tokenizer.vocabulary_size(), num_key_value_heads=1, head_dim=8,
                **decoder,
            )  # fmt: skip
        case "llama3":
            tokenizer = models.Llama3Tokenizer(**make_byte_pairs())
            backbone = models.Llama3Backbone(
                vocabulary_size=tokenizer.vocabulary_size(), num_key_value_heads=1, **decoder
            )
        case "qwen":
            tokenizer = models.QwenTokenizer(**make_byte_pairs())
            backbone = models.QwenBackbone(
                vocabulary_size=tokenizer.vocabulary_size(), num_key_value_heads=1, **decoder
            )
        case "mistral":
            proto = make_sentence_pieces(path, pad_id=0, bos_id=1, eos_id=2, unk_id=3)
            tokenizer = models.MistralTokenizer(proto=proto)
            backbone = models.MistralBackbone(
                vocabulary_size=tokenizer.vocabulary_size(), num_key_value_heads=1, **decoder
            )
        case "vit":
            backbone = models.ViTBackbone(
                image_shape=(16, 16, 3), patch_size=8, num_layers=2, num_heads=2, hidden_dim=16,
                mlp_dim=32,
            )  # fmt: skip
            converter = keras_hub.layers.ViTImageConverter(image_size=(16, 16), scale=1 / 255)
            converter.save_to_preset(str(path))
            tokenizer = None
        case "resnet":
            backbone = make_resnet(models, (16, 16, 3))
            converter = keras_hub.layers.ResNetImageConverter(image_size=(16, 16), scale=1 / 255)
            converter.save_to_preset(str(path))
            tokenizer = None
        case "segformer":
            encoder = models.MiTBackbone(
                image_shape=(32, 32, 3), hidden_dims=[8, 16], layerwise_depths=[1, 1],
                num_layers=2, layerwise_num_heads=[1, 2], layerwise_sr_ratios=[2, 1],
                layerwise_patch_sizes=[3, 3], layerwise_strides=[2, 2], max_drop_path_rate=0.0,
            )  # fmt: skip
            backbone = models.SegFormerBackbone(image_encoder=encoder, projection_filters=16)
            converter = keras_hub.layers.SegFormerImageConverter(image_size=(32, 32), scale=1 / 255)
            converter.save_to_preset(str(path))
            tokenizer = None
        case "deeplab_v3":
            encoder = make_resnet(models, (None, None, 3))
            backbone = models.DeepLabV3Backbone(
                image_encoder=encoder, spatial_pyramid_pooling_key="P3", upsampling_size=2,
                dilation_rates=[2], low_level_feature_key="P2", projection_filters=4,
            )  # fmt: skip
            converter = keras_hub.layers.DeepLabV3ImageConverter(image_size=(32, 32), scale=1 / 255)
            converter.save_to_preset(str(path))
            tokenizer = None
        case "retinanet":
            encoder = models.ResNetBackbone(
                input_conv_filters=[64], input_conv_kernel_sizes=[3],
                stackwise_num_filters=[64, 64], stackwise_num_blocks=[1, 1],
                stackwise_num_strides=[1, 2], block_type="basic_block",
                image_shape=(None, None, 3),
            )  # fmt: skip
            backbone = models.RetinaNetBackbone(
                image_encoder=encoder, min_level=2, max_level=3, use_p5=False,
                image_shape=(32, 32, 3),
            )  # fmt: skip
            converter = keras_hub.layers.RetinaNetImageConverter(
                image_size=(32, 32), scale=1 / 255, pad_to_aspect_ratio=True,
                crop_to_aspect_ratio=False,
            )  # fmt: skip
            models.RetinaNetObjectDetector(
                backbone, num_classes=3, pre_logits_num_conv_layers=1,
                preprocessor=models.RetinaNetObjectDetectorPreprocessor(converter),
            ).save_to_preset(str(path))  # fmt: skip
            return str(path)
    for variable in backbone.trainable_variables:
        if len(variable.shape) > 1:  # Else all texts are nearly the same to it.
            variable.assign(variable * 10.0)
    backbone.save_to_preset(str(path))
    if tokenizer is not None:
        tokenizer.save_to_preset(str(path))
    return str(path)

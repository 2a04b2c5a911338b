"""Why a label: reasons, contrastive sets, counterfactuals, and what to protect."""

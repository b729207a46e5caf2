"""Model soups (Wortsman et al. 2022): the average number by number, and recipe 1 as it is printed."""

from __future__ import annotations

import numpy as np


def average(models: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    out = {}
    for key in models[0]:
        flat = np.zeros(models[0][key].size)
        for place in range(flat.size):
            flat[place] = sum(float(model[key].flat[place]) for model in models) / len(models)
        out[key] = flat.reshape(models[0][key].shape)
    return out


def greedy(models: list[dict[str, np.ndarray]], val_acc) -> list[int]:
    """Recipe 1: places of the ingredients, in the order in which they went in."""
    places = sorted(range(len(models)), key=lambda i: val_acc(models[i]), reverse=True)
    ingredients: list[int] = []
    for i in places:
        with_it = val_acc(average([models[j] for j in [*ingredients, i]]))
        if not ingredients or with_it >= val_acc(average([models[j] for j in ingredients])):
            ingredients.append(i)
    return ingredients

// Plural categories of the locales here, from the digits as they are formatted.
import { library } from '../../libraries.js';
import { indexOf, split } from '../../intrinsics.js';

// categoryOf returns the category of a number whose digits are shown as an integer and a fraction.
export const categoryOf = (locale, integer, fraction, ordinal = false) =>
  library('plural', locale.plural, fraction === '' ? integer : `${integer}.${fraction}`, ordinal);

export const categoriesOf = (locale, ordinal) => split(library('pluralCategories', locale.plural, ordinal), ' ');

// The order of forms in locales.js, where one that is missing is as that of other.
const ORDER = ['one', 'other', 'few', 'many', 'two', 'zero'];

export const form = (forms, category) => forms[indexOf(ORDER, category)] || (forms[1] ?? forms[0]);
